"""Runs each collector on its own timer, in its own thread, and keeps its last report.

Theory. A collector that hangs holds its thread and nothing else: after its limit the report says so, and no second call
is begun until the first one has returned. Its late result is dropped. Requests read the last reports and wait for
nobody.

Source: mond.md 4, 5 and 7.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from math import inf
from typing import Final

import attrs
import trio

from common.errors import Denied, GantryError, explain
from common.installation import use_plugins
from common.jsontext import ascii_json
from common.plugins import subclasses_in
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.words.times import clock
from daemons.mond.collectors.base import Collector
from daemons.mond.collectors.commands import Commands
from daemons.mond.collectors.machine import (
    DiskSpace,
    DiskStatistics,
    LoadCollector,
    MemoryCollector,
    NodeFactsCollector,
    ProcessorLoad,
)
from daemons.mond.collectors.standing import Lag, NodeRoleCollector
from daemons.mond.core.reports import CollectorStatus, Number, Report, ReportKind, StatusCode, failed
from protocol.confd.client import candidates, read_key
from protocol.confd.gathering import ConfdPeer
from protocol.confd.questions import Question
from protocol.confd.trioclient import ask_confd

# All collectors: our own, and those of plug-in packages.
#
# A plug-in adds collectors by an entry point in the group `gantry.collectors` that names a module; every subclass of
# `Collector` that the module defines and that has a name is taken. One that cannot be loaded harms no other.
#
# Source: DESIGN section 13; mond.md 2, 4.


GROUP: Final = "gantry.collectors"
# Ganeti's first, in its order
_OWN: Final[Sequence[type[Collector]]] = (
    ProcessorLoad,
    DiskStatistics,
    NodeFactsCollector,
    LoadCollector,
    MemoryCollector,
    DiskSpace,
    Commands,
    Lag,
    NodeRoleCollector,
)


def make_collectors(settings: Settings) -> Sequence[Collector]:
    """One object of each collector, in the order of the lists. What cannot be made is logged and left out."""
    try:
        use_plugins(settings)
    except (Denied, OSError) as error:
        _log.error("plugins.refused", reason=error, effect="only installed collectors are used")
    found: dict[str, Collector] = {}
    for kind in (*_OWN, *_plugged_in()):
        if kind.NAME in found:
            _log.error("collector.refused", name=kind.NAME, module=kind.__module__, reason="the name is taken")
            continue
        try:
            found[kind.NAME] = kind(settings)
        except Exception:
            _log.exception("collector.not_made", name=kind.NAME, module=kind.__module__)
    return tuple(found.values())


def _plugged_in() -> Iterator[type[Collector]]:
    for point in entry_points(group=GROUP):
        try:
            module = point.load()
        except Exception:
            _log.exception("plugin.not_loaded", plugin=point.name, module=point.value)
            continue
        # a common base of several collectors has no name
        yield from (kind for kind in subclasses_in(module, Collector) if hasattr(kind, "NAME"))


# The timers, and the last reports.


# bytes of the largest report
_MAX_BYTES: Final = 2**20
# most values of one collector in the text for Prometheus
_MAX_NUMBERS: Final = 10_000
_log: Final = get_log(__name__)


@attrs.frozen
class Rhythm:
    """Whether and how often a collector runs."""

    is_active: bool
    interval_s: float


class TimedCollector:
    """One collector, its timer and its last report."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.about = collector.about()
        self._usual = Rhythm(True, collector.INTERVAL_S)
        self._rhythm = self._usual
        self._has_changed = trio.Event()
        # one thread, which a call that hangs keeps
        self._thread = trio.CapacityLimiter(1)
        # when the last call began, on trio's clock
        self._began_at = -inf
        # since when a call hangs, seconds since the epoch
        self._hangs_since: float | None = None
        self.report = failed(self.about, time.time_ns(), "nothing is collected yet")
        self.numbers: Sequence[Number] = ()
        # set when there is a report of a call
        self.has_reported = trio.Event()
        # why the last call failed for a mistake of the collector, as it was logged; "": it did not
        self._mistake = ""
        # seconds that the last call took
        self.took_s = 0.0

    @property
    def is_active(self) -> bool:
        return self._rhythm.is_active

    def set_rhythm(self, rhythm: Rhythm | None) -> None:
        """Args: rhythm: None: the usual one of the collector."""
        rhythm = rhythm or self._usual
        if rhythm != self._rhythm:
            _log.info("collector.changed", name=self.about.name, active=rhythm.is_active, interval_s=rhythm.interval_s)
            self._rhythm = rhythm
            self._has_changed.set()

    async def run(self) -> None:
        """Collect until cancelled; a call that hangs is left behind."""
        while True:
            rhythm = self._rhythm
            with trio.move_on_at(self._began_at + rhythm.interval_s if rhythm.is_active else inf):
                await self._has_changed.wait()
                self._has_changed = trio.Event()
                continue
            await self.collect()

    async def collect(self) -> None:
        """Collect once, and replace the report. Nothing that a collector does gets out of here."""
        self._began_at, at_ns = trio.current_time(), time.time_ns()
        limit_s = self._collector.LIMIT_S
        with trio.move_on_after(limit_s) as scope:
            self.report, self.numbers = await in_thread(
                self._collect, at_ns, limiter=self._thread, abandon_on_cancel=True
            )
            self._hangs_since = None
        self.took_s = trio.current_time() - self._began_at
        if scope.cancelled_caught:
            self._note_hanging(at_ns, limit_s)
        self.has_reported.set()

    def _note_hanging(self, at_ns: int, limit_s: float) -> None:
        if self._hangs_since is None:
            self._hangs_since = at_ns / 1e9
            _log.warning("collector.hangs", name=self.about.name, limit_s=limit_s, effect="others go on")
        text = f"it has not returned within {limit_s:g} s; it hangs since {clock(self._hangs_since)}"
        self.report, self.numbers = failed(self.about, at_ns, text), ()

    def _collect(self, at_ns: int) -> tuple[Report, Sequence[Number]]:
        """In a thread."""
        try:
            found = self._collector.collect()
            if self.about.kind is ReportKind.STATUS and (found.status is None or not isinstance(found.data, Mapping)):
                raise TypeError("a report of its kind is an object with a status")
            status = {} if found.status is None else {"status": found.status.to_wire()}
            content = ascii_json({**found.data, **status} if isinstance(found.data, Mapping) else found.data)
            if len(content) > _MAX_BYTES:
                raise ValueError(f"its report has {len(content)} bytes, at most {_MAX_BYTES} are possible")
            report = Report(self.about, at_ns, content, found.status or CollectorStatus(StatusCode.OK))
            self._mistake = ""
            return report, tuple(found.numbers)[:_MAX_NUMBERS]
        except (GantryError, OSError) as error:
            return failed(self.about, at_ns, explain(error)), ()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if text != self._mistake:
                # once, not at each interval
                self._mistake = text
                _log.exception("collector.failed", name=self.about.name)
            return failed(self.about, at_ns, text), ()


class Reports:
    """All collectors."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._watched = tuple(TimedCollector(collector) for collector in collectors)
        self._by_path = {each.about.path: each for each in self._watched}

    @property
    def active(self) -> Sequence[TimedCollector]:
        return [each for each in self._watched if each.is_active]

    def find(self, category: str, name: str) -> Report | None:
        """The last report; None: there is no such collector, or it is not active."""
        found = self._by_path.get((category, name))
        return found.report if found is not None and found.is_active else None

    def set_rhythms(self, rhythms: Mapping[str, Rhythm]) -> None:
        """Args: rhythms: by name; the others have their usual ones."""
        for each in self._watched:
            each.set_rhythm(rhythms.get(each.about.name))

    def all_numbers(self) -> Sequence[Number]:
        """The numbers of all reports, and those about the collectors themselves."""
        found: list[Number] = []
        now_ns = time.time_ns()
        for each in self.active:
            labels = {"collector": each.about.name}
            age_s = max(now_ns - each.report.at_ns, 0) / 1e9
            text = "0: well, 1: being repaired, 2: not known, 4: bad"
            found.append(Number("gantry_collector_status", each.report.status.code.value, labels, text))
            found.append(Number("gantry_collector_age_seconds", round(age_s, 3), labels, "Age of its report"))
            found.append(Number("gantry_collector_seconds", round(each.took_s, 6), labels, "Time that it took"))
            found.extend(each.numbers)
        return found

    async def first_reports(self, patience_s: float) -> None:
        """Wait until each has a report, at most so long; the others go on with `run`."""
        with trio.move_on_after(patience_s):
            for each in self.active:
                await each.has_reported.wait()

    async def run(self) -> None:
        """Collect until cancelled."""
        async with trio.open_nursery() as nursery:
            for each in self._watched:
                nursery.start_soon(each.run)


# Which collectors run, and how often: the cluster's configuration says so, and confd tells it.
#
# Theory. No reply is no verdict: what was told last goes on to count, and before the first reply all collectors are
# active, at their usual intervals.
#
# Source: mond.md 5; confd.md 4, type 11.


# seconds between two questions; Ganeti's
ASK_EVERY_S: Final = 15.0
# shorter intervals are not obeyed
_LEAST_S: Final = 0.5


class RhythmsByConfd:
    """Keeps the rhythms as the candidates tell them."""

    def __init__(self, settings: Settings, reports: Reports) -> None:
        self._settings = settings
        self._reports = reports
        self._is_silent = False

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self._ask()
            await trio.sleep(ASK_EVERY_S)

    async def _ask(self) -> None:
        try:
            key, peers = await in_thread(self._read)
            outcome = await ask_confd(key, peers, Question.COLLECTORS)
            rhythms = read_rhythms(outcome.answer())
        except (GantryError, OSError) as error:
            if not self._is_silent:
                effect = "they stay as they are"
                _log.warning("rhythms.unknown", reason=explain(error), effect=effect, retry_s=ASK_EVERY_S)
            self._is_silent = True
            return
        self._is_silent = False
        self._reports.set_rhythms(rhythms)

    def _read(self) -> tuple[bytes, list[ConfdPeer]]:
        paths = self._settings.paths
        return read_key(paths), list(candidates(paths, self._settings.confd.port))


def read_rhythms(answer: object) -> Mapping[str, Rhythm]:
    """The rhythms in confd's answer, by the name of the collector; entries of another form are left out."""
    found: dict[str, Rhythm] = {}
    for name, told in answer.items() if isinstance(answer, dict) else ():
        if isinstance(told, dict) and isinstance(told.get("active"), bool) and type(told.get("interval")) is int:
            found[name] = Rhythm(told["active"], max(told["interval"] / 1e6, _LEAST_S))
    return found

"""The configuration as luxid knows it: read, followed, and its filter rules."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, assert_never

import trio

from common.errors import ConfigurationError, GantryError, InvalidRequest
from common.ids import JobId
from common.objects.codec import decode_config
from common.objects.index import ConfigIndex
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from common.system.stamps import Stamp, is_settled, stamp_if_known
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.scheduler import Scheduler
from protocol.client import Client
from protocol.luxi.daemon import ReadMetrics
from protocol.luxi.queries import WaitForJobChange
from protocol.messages import AnyRequest
from protocol.serving.route import AnyRoute
from protocol.subscriptions import (
    ConfigChanged,
    Event,
    HoldingsChanged,
    KeptChanged,
    OrphansChanged,
    Snapshot,
    WconfdEvents,
)
from protocol.wconfd.config import ReadConfig, ReadResources
from protocol.wconfd.locks import RESOURCES, Holdings, OrphanedLocks

# luxid's copy of the configuration, which is wconfd's.
#
# Theory. wconfd writes the file, then replies with what it wrote. So when the reply to a
# change has arrived, the file has changed: before the copy is used, the file's stamp is compared
# with the stamp from before the copy was requested. That is exact, costs one system call, and needs no
# events, of which a busy lock table in the same folder would cause thousands. One gap is left: wconfd
# serves the new content only a moment after the file has its name, and two writes may have the
# same time. So a copy made soon after a write is requested again at each use, until the write is old.
#
# Source: luxid.md 1.6 (last line), 2.2; DESIGN section 6.


# seconds to wait while wconfd is being restarted
WAIT_S: Final = 5.0
# longer than a write needs to become visible, on a busy disk
SETTLED_NS: Final = 5 * 10**9
_log: Final = get_log(__name__)


class ConfigurationMissing(ConfigurationError):
    """cannot read the configuration from wconfd"""

    code = "unavailable"


class ConfigCache:
    """The current configuration.

    Args:
        path: its file, which is only checked for changes.
        wconfd: client for requests; not for calls that wait long.
        on_read: called with each new configuration.
    """

    def __init__(self, path: Path, wconfd: Client, on_read: Callable[[ConfigIndex], None] = lambda _: None) -> None:
        self._path = path
        self._wconfd = wconfd
        self._index: ConfigIndex | None = None
        self._on_read = on_read
        self._stamp: Stamp | None = None
        # held during a request to wconfd
        self._turn = trio.Lock()
        self._failure: tuple[float, ConfigurationMissing] | None = None

    async def load(self) -> None:
        """Read the configuration before it is needed; a failure is only logged."""
        try:
            await self.require()
        except ConfigurationMissing as error:
            _log.warning("config.missing", reason=error, effect="calls fail until wconfd answers")

    async def require(self) -> None:
        """Make sure that the configuration was read at least once, no matter when. Raises: as `current`."""
        if self._index is None:
            await self.current()

    async def current(self) -> ConfigIndex:
        """Return the configuration with all changes that were acknowledged before this call.

        Raises: ConfigurationMissing: wconfd has not replied for 5 s, or its reply is not a configuration.
        Cost: a check of the file; after a change the whole is read and checked again, once for all callers.
        """
        asked_at = trio.current_time()
        if (index := self._fresh()) is not None:
            return index
        async with self._turn:
            if (index := self._fresh()) is not None:
                return index
            if self._failure is not None and self._failure[0] > asked_at:
                raise ConfigurationMissing(self._failure[1].message)
            try:
                return await self._refresh()
            except ConfigurationMissing as error:
                self._failure = (trio.current_time(), error)
                raise

    def _fresh(self) -> ConfigIndex | None:
        stamp = stamp_if_known(self._path)
        return self._index if stamp is not None and stamp == self._stamp and is_settled(stamp, SETTLED_NS) else None

    async def _refresh(self) -> ConfigIndex:
        stamp = stamp_if_known(self._path)
        is_likely_same = self._index is not None and stamp == self._stamp
        try:
            # with a usable copy there is no need to wait for a restart
            content = await (
                self._wconfd.call(ReadConfig()) if is_likely_same else self._wconfd.call_retrying(ReadConfig(), WAIT_S)
            )
            index = await self._read(content)
        except GantryError as error:
            if self._index is not None and is_likely_same:
                return self._index
            raise ConfigurationMissing(f"cannot read the configuration from wconfd: {error.message}") from error
        has_changed = index is not self._index
        self._index, self._stamp = index, stamp
        if has_changed:
            self._on_read(index)
        return index

    async def _read(self, content: Mapping[str, object]) -> ConfigIndex:
        had = self._index
        if had is not None and _edition(content) == (had.config.cluster.uuid, had.config.serial_no, had.config.mtime):
            return had
        # checking thousands of objects takes long
        return ConfigIndex(await in_thread(decode_config, content))


def needing_config(route: AnyRoute, config: ConfigCache) -> AnyRoute:
    """Return the route with a check: calls fail as long as no configuration has ever been read.

    A call that only waits for a job's status does not fail: so a client sees its job through in any case; nor do the
    numbers for graphs and alerts.
    """

    async def check(call: AnyRequest) -> None:
        if isinstance(call, ReadMetrics) or (isinstance(call, WaitForJobChange) and call.fields == ("status",)):
            return
        await config.require()

    return route.after(check)


def _edition(content: Mapping[str, object]) -> tuple[object, object, object]:
    cluster = content.get("cluster")
    uuid = cluster.get("uuid") if isinstance(cluster, dict) else None
    return (uuid, content.get("serial_no"), content.get("mtime"))


# Reading of each new configuration, for parts that must know it before anybody asks for it.
#
# Without such parts luxid reads the configuration only when a call needs it.


class NewConfigs:
    """Reads the configuration after each report of a change; changes that come meanwhile are read together."""

    def __init__(self, config: ConfigCache) -> None:
        self._config = config
        self._has_news = trio.Event()

    def tell(self) -> None:
        """The configuration may have changed."""
        self._has_news.set()

    async def run(self) -> None:
        """Read what was reported, until cancelled."""
        while True:
            await self._has_news.wait()
            self._has_news = trio.Event()
            try:
                await self._config.current()
            except ConfigurationMissing as error:
                # the next connection to wconfd begins with a snapshot, which is reported too
                _log.warning("config.not_read", reason=error, effect="copies go to the candidates known so far")


# The filter rules and the limit of running jobs in force, taken from the configuration, which wconfd keeps.
#
# Before they were read once, no job is started: a restart must not bypass a rule that holds jobs back.
#
# Source: DESIGN section 6, "Filters"; luxid.md 5.2.


UNKNOWN: Final = "wconfd has not told the filter rules yet"
RETRY_S: Final = 1.0


class FilterRuleSync:
    """Keeps the queue's rules equal to those of the configuration.

    Args:
        scheduler: obstructed by UNKNOWN until the rules are known.
    """

    def __init__(self, scheduler: Scheduler, config: ConfigCache) -> None:
        self._scheduler = scheduler
        self._config = config
        # one at a time, so that an older configuration never replaces a newer one
        self._turn = trio.Lock()

    async def load(self) -> None:
        """Get the rules for the first time; tries until the configuration can be read."""
        while True:
            try:
                await self.refresh()
                return
            except ConfigurationMissing as error:
                _log.warning("filters.unknown", reason=error, effect="no job is started", retry_s=RETRY_S)
            await trio.sleep(RETRY_S)

    async def refresh(self) -> None:
        """Put the rules and the limit of the present configuration in force.

        If a rule is malformed, that is logged, and the rules stay unchanged.

        Raises: ConfigurationMissing.
        """
        async with self._turn:
            config = (await self._config.current()).config
            self._scheduler.limit_running(config.cluster.max_running_jobs)
            try:
                self._scheduler.install_rules(config.filters.values())
            except InvalidRequest as error:
                effect = "the rules stay as they were; with none so far no job starts"
                _log.error("filters.refused", reason=error, effect=effect)
                return
            self._scheduler.clear(UNKNOWN)


# The totals of resources in force, which wconfd keeps.
#
# Until they were read once, jobs that use resources wait; all others run.
#
# Source: DESIGN section 16.


class ResourceTotals:
    """Keeps the queue's totals equal to wconfd's; start `run`.

    Args:
        wconfd: a client of its own.
        is_ready: is set when the units that jobs were found with are counted; before, no totals are told.
    """

    def __init__(self, scheduler: Scheduler, wconfd: Client, is_ready: trio.Event) -> None:
        self._scheduler = scheduler
        self._wconfd = wconfd
        self._is_ready = is_ready
        self._has_news = trio.Event()
        # one at a time, so that older totals never replace newer ones
        self._turn = trio.Lock()
        # whether totals were in force since the start
        self._is_known = False

    def changed(self, what: str | None) -> None:
        """Take note of a change in wconfd. Args: what: as for `ConfigFollowing.on_kept`."""
        if what in (None, RESOURCES):
            self._has_news.set()

    async def run(self) -> None:
        """Follow the totals, until cancelled."""
        await self._is_ready.wait()
        while True:
            await self._has_news.wait()
            self._has_news = trio.Event()
            for pause_s in retry_pauses():
                try:
                    await self.refresh()
                    break
                except GantryError as error:
                    _log.warning("resources.not_read", reason=error, effect="totals stay as they were", retry_s=pause_s)
                await trio.sleep(pause_s)

    async def refresh(self) -> None:
        """Put the present totals in force; nothing happens before luxid knows who has units. Raises: GantryError."""
        if not self._is_ready.is_set():
            return
        async with self._turn:
            resources = await self._wconfd.call(ReadResources())
            self._scheduler.install_resources(resources)
            self._is_known = True

    async def require(self) -> None:
        """Return when totals are in force. Raises: GantryError: wconfd cannot be asked, and they are not known."""
        if not self._is_known:
            await self._is_ready.wait()
            await self.refresh()


# Follow wconfd: the locks of running jobs, and changes of the filter rules.
#
# Each connection begins with all held locks, so nothing that was missed stays unknown. If wconfd
# refuses the subscription, luxid works with declared locks and its present rules.
#
# Source: DESIGN sections 6 and 8.


class ConfigFollowing:
    """Passes wconfd's events to the queue.

    Args:
        on_config: called whenever the configuration may have changed.
        on_orphans: called with the orphaned locks, whenever they may have changed; with None if they are to be listed.
        on_kept: called when schedules or resources, by `protocol.wconfd.locks`, have changed; with None at each
            connection to wconfd, when both are to be read.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        rules: FilterRuleSync,
        events: WconfdEvents,
        on_config: Callable[[], None] = lambda: None,
        on_orphans: Callable[[tuple[OrphanedLocks, ...] | None], None] = lambda _: None,
        on_kept: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._jobs = jobs
        self._rules = rules
        self._events = events
        self._on_config = on_config
        self._on_orphans = on_orphans
        self._on_kept = on_kept

    async def run(self) -> None:
        """Follow, through restarts of wconfd, until cancelled or refused."""
        while True:
            try:
                event = await self._events.next()
            except GantryError as error:
                effect = "declared locks count in place of held ones, and rules set elsewhere are not seen"
                _log.error("wconfd.not_followed", reason=error, effect=effect)
                return
            await self._take(event)

    async def _take(self, event: Event) -> None:
        self._jobs.news.tell_reasons()
        match event:
            case Snapshot(holdings=holdings):
                for job_id in self._jobs.queue.running():
                    self._jobs.queue.set_locks(job_id, {})
                self._tell(holdings)
                self._on_config()
                self._on_orphans(None)
                self._on_kept(None)
                await self._refresh_rules()
            case HoldingsChanged(holdings=holdings):
                self._tell(holdings)
            case ConfigChanged(filters_changed=filters_changed):
                self._on_config()
                if filters_changed:
                    await self._refresh_rules()
            case OrphansChanged(orphans=orphans):
                # changes of their locks are told apart
                self._on_orphans(orphans)
            case KeptChanged(what):
                self._on_kept(what)
            case _:
                assert_never(event)

    def _tell(self, holdings: Iterable[Holdings]) -> None:
        """Does not pump: held locks never make a job startable, they only reorder the ready ones."""
        for owner, held in holdings:
            job = self._jobs.table.in_memory(JobId(owner.ident)) if isinstance(owner.ident, int) else None
            # an event may name an earlier process of the job
            if job is not None and job.livelock == owner.livelock:
                self._jobs.queue.set_locks(job.job_id, dict(held))

    async def _refresh_rules(self) -> None:
        try:
            await self._rules.refresh()
        except ConfigurationMissing as error:
            # the next connection begins with a snapshot, and then the rules are read again
            _log.warning("filters.not_read", reason=error, effect="the rules stay as they are")

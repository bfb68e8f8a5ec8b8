"""Whether an installation is well."""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.featuresettings import HealthSettings
from common.shapes import Lenient
from common.system.processuse import ProcessUse

# ended jobs that the history may lack for a while without harm
_BEHIND: Final = 1000
_WATCH_REMEDY: Final = "mend the reason; the daemon tries it again by itself, and need not be restarted"
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


class Level(enum.IntEnum):
    """How bad it is; the value is the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@attrs.frozen
class Finding:
    """Something that is not well."""

    level: Level
    # a word for programs, such as `disk`
    what: str
    text: str
    # what to do
    remedy: str


@attrs.frozen
class Room(Lenient):
    """The room on the disk of a folder, for the daemons' user."""

    path: str
    free_bytes: int = 0
    size_bytes: int = 0
    # files that may still be made, and all; 0: the disk counts none
    free_files: int = 0
    files: int = 0
    # why it is not known; "": it is
    failure: str = ""
    # whether there is no such folder: somebody has moved or removed it while the daemons run
    is_gone: bool = False


def worst(findings: Iterable[Finding]) -> Level:
    """Critical counts more than not known, as a monitor cannot mend what it does not know."""
    levels = {finding.level for finding in findings}
    order = (Level.CRITICAL, Level.UNKNOWN, Level.WARNING)
    return next((level for level in order if level in levels), Level.OK)


def summary_line(level: Level, findings: Sequence[Finding]) -> str:
    """`warning: queue: it is drained, ...; 2 more`: what monitors show."""
    ordered = in_order(findings)
    if not ordered:
        return level.word
    more = f"; {len(ordered) - 1} more" if len(ordered) > 1 else ""
    return f"{level.word}: {ordered[0].what}: {ordered[0].text}{more}"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first."""
    return sorted(findings, key=lambda finding: (-(finding.level is Level.CRITICAL), -finding.level))


def disk_findings(rooms: Iterable[Room], settings: HealthSettings) -> Iterator[Finding]:
    """Disks that are full or nearly full; each disk once."""
    seen: set[tuple[int, int, int]] = set()
    for room in rooms:
        if room.is_gone:
            text = f"the folder '{room.path}' was moved or removed while the daemons run: nothing can be written"
            remedy = (
                "put it back; or stop the daemons with 'gantry --root DIR down', DIR being where it is now, and start"
            )
            yield Finding(Level.CRITICAL, "disk", text, f"{remedy} them there")
            continue
        if room.failure:
            remedy = "look at the disk, and at the daemon's log"
            yield Finding(Level.CRITICAL, "disk", f"the room of '{room.path}' is not known: {room.failure}", remedy)
            continue
        disk = (room.free_bytes, room.size_bytes, room.free_files)
        if disk in seen or not room.size_bytes:
            continue
        seen.add(disk)
        yield from _disk_finding(room, settings)


def _disk_finding(room: Room, settings: HealthSettings) -> Iterator[Finding]:
    kinds = [(100 * room.free_bytes / room.size_bytes, f"{size_text(room.free_bytes)} free")]
    if room.files:
        kinds.append((100 * room.free_files / room.files, f"room for {room.free_files} more files"))
    percent, text = min(kinds)
    level = _falling(percent, settings.disk_warning_percent, settings.disk_critical_percent)
    if level is not Level.OK:
        remedy = "make room: 'gantry prune --dry-run' tells what old jobs take; jobs hold while nothing can be written"
        yield Finding(level, "disk", f"'{room.path}' has {text}, {percent:.1f} % of its disk", remedy)


def descriptor_findings(processes: Mapping[str, ProcessUse], settings: HealthSettings) -> Iterator[Finding]:
    """Daemons that run out of descriptors. Args: processes: by the name of the daemon."""
    for name, process in processes.items():
        if process.max_descriptors <= 0:
            continue
        percent = 100 * (process.max_descriptors - process.descriptors) / process.max_descriptors
        level = _falling(percent, settings.descriptors_warning_percent, settings.descriptors_critical_percent)
        if level is not Level.OK:
            text = f"{name} uses {process.descriptors} of its {process.max_descriptors} descriptors"
            remedy = "look who holds connections ('ss -xp'), or raise LimitNOFILE of its service, and restart it"
            yield Finding(level, "descriptors", text, remedy)


def watch_findings(processes: Mapping[str, ProcessUse]) -> Iterator[Finding]:
    """Daemons that the kernel tells of no changes of files. Args: processes: by the name of the daemon."""
    for name, process in processes.items():
        if process.unwatched:
            text = f"{name} looks at folders at intervals, and learns late of what changes there"
            yield Finding(Level.WARNING, "watches", f"{text}: {'; '.join(process.unwatched)}", _WATCH_REMEDY)


def lag_findings(lags: Mapping[str, float], settings: HealthSettings) -> Iterator[Finding]:
    """Candidates that lack files of the queue. Args: lags: seconds, by the name of the node."""
    for node, lag_s in lags.items():
        if lag_s >= settings.lag_warning_s:
            text = f"node '{node}' lacks files of the queue for {lag_s:.0f} s"
            yield Finding(Level.WARNING, "copies", text, "'gnt-cluster verify' tells why; look at its node daemon")


def queue_findings(*, is_drained: bool, pausing: Sequence[str]) -> Iterator[Finding]:
    """What keeps jobs out or back. Args: pausing: the active rules that pause, in words, each after its uuid."""
    if is_drained:
        text = "it is drained, and takes no new jobs"
        yield Finding(Level.WARNING, "queue", text, "open it by 'gnt-cluster queue undrain'")
    for rule in pausing:
        uuid = rule.partition(" ")[0]
        text = f"filter rule {rule} makes jobs wait"
        yield Finding(Level.WARNING, "queue", text, f"'gnt-filter delete {uuid}' ends that")


def luxid_findings(
    *,
    lost_files: int = 0,
    damaged_files: int,
    unread_jobs: int,
    lost_outputs: int,
    history_behind: int,
    given_up: int,
    rules_off: Sequence[str],
) -> Iterator[Finding]:
    """What luxid has met."""
    if unread_jobs:
        text = f"{_jobs(unread_jobs)} cannot be read now"
        yield Finding(Level.CRITICAL, "job files", text, "luxid's log names the files; look at the disk")
    if lost_files:
        text = f"the master has lost {_jobs(lost_files)}, which nodes have set aside"
        yield Finding(Level.CRITICAL, "job files", text, "'gantry repair' tells what is missing, and fetches it")
    if damaged_files:
        text = f"{_jobs(damaged_files)} damaged, set aside in 'queue-damaged' of the folder of data"
        yield Finding(Level.WARNING, "job files", text, "look at them, keep what you need, and remove them there")
    if lost_outputs:
        text = f"commands of {lost_outputs} job{'' if lost_outputs == 1 else 's'} lost output, as the disk took none"
        yield Finding(Level.WARNING, "output", text, "make room; their results have 'output_lost', and the last lines")
    if history_behind >= _BEHIND:
        text = f"it lacks {history_behind} ended jobs"
        yield Finding(Level.WARNING, "history", text, "it catches up by itself; luxid's log tells if it cannot")
    if given_up:
        text = f"{given_up} deliver{'y was' if given_up == 1 else 'ies were'} given up: somebody was not told of a job"
        remedy = "see: gnt-job list 'status=error & op=notify'; 'gantry logs --level warning' tells more"
        yield Finding(Level.WARNING, "notify", text, remedy)
    for rule in rules_off:
        text = f"rule '{rule}' is off, as its receiver has replied that it wants no more (410)"
        yield Finding(Level.WARNING, "notify", text, "take it out of the settings, or restart luxid to try it again")


def schedule_findings(stopped: Mapping[str, str]) -> Iterator[Finding]:
    """Schedules that cannot run. Args: stopped: why, by the name of the schedule."""
    for name, why in stopped.items():
        text = f"schedule '{name}' does not run: {why}"
        yield Finding(Level.WARNING, "schedules", text, f"change it, or remove it: gantry schedule info {name}")


def size_text(count: float) -> str:
    """`812 bytes`, `1.2 GiB`."""
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == _UNITS[0] else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"


def _falling(percent: float, warning: float, critical: float) -> Level:
    return Level.CRITICAL if percent < critical else Level.WARNING if percent < warning else Level.OK


def _jobs(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'} of jobs"

"""`gantry logs`: the logs of all daemons together, in the order of time.

Source: DESIGN section 16.
"""

import contextlib
import gzip
import os
import re
import time
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import attrs
import click
import trio

from cli.commands import Command
from cli.context import installation, uses_color, wants_json
from cli.exitcodes import DONE, FAILED
from cli.screen import complain, remark, say_json, say_styled, warn, write
from common.daemons import DAEMONS
from common.errors import InvalidRequest, NotFound
from common.paths import Paths
from common.printable import defused
from common.system.running import find_daemon
from common.system.watch import EventKind, FolderWatch
from common.words.instants import Toward, parse_instant
from common.words.logs import LEVELS, LogChoice, LogRecord, in_order, read_records, stamp_of

# The log files of an installation: those in use, and those that were rotated away.
#
# Source: deploy/logrotate.


SUPERVISOR: Final = "supervisor"
COMMANDS: Final = "commands"
# `.1`, `.2.gz`, `-20260301`, `-20260301.gz`
_ROTATED: Final = r"(?:\.\d+|-\d{8}(?:\d+)?)(?:\.gz)?"
_CHUNK: Final = 1 << 16


@attrs.frozen
class LogFile:
    """A log in use."""

    # name of the daemon, `supervisor` or `commands`
    name: str
    path: Path

    def rotated(self) -> list[Path]:
        """The older files, oldest first. Raises: OSError: the folder cannot be listed."""
        pattern = re.compile(re.escape(self.path.name) + _ROTATED, re.ASCII)
        found = [Path(entry.path) for entry in os.scandir(self.path.parent) if pattern.fullmatch(entry.name)]
        return sorted(found, key=_changed_at)


def log_files(paths: Paths, names: Sequence[str] = ()) -> list[LogFile]:
    """The logs of these daemons; of all, if none is named. Raises: InvalidRequest: there is no such daemon."""
    known = {daemon.name: paths.log_file(daemon.name) for daemon in DAEMONS}
    known |= {SUPERVISOR: paths.supervisor_log, COMMANDS: paths.commands_log}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidRequest(f"there is no log of '{unknown[0]}'; known are {', '.join(known)}")
    return [LogFile(name, path) for name, path in known.items() if not names or name in names]


def changed_since(files: Iterable[Path], since: float) -> list[Path]:
    """Those that were written to after an instant: others have nothing newer."""
    return [path for path in files if _changed_at(path) >= since]


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a rotated file; a file that is gone, cut off while it was compressed, or damaged, ends early."""
    with (
        contextlib.suppress(FileNotFoundError, EOFError, gzip.BadGzipFile, zlib.error),
        gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file,
    ):
        yield from map(as_text, file)


@attrs.define
class _Tail:
    """An open file whose whole lines are read as they come."""

    _file: BinaryIO
    # beginning of a line whose end is not written yet
    _half: bytes = b""

    @property
    def identity(self) -> tuple[int, int]:
        there = os.fstat(self._file.fileno())
        return there.st_dev, there.st_ino

    def skip_to(self, most_bytes: int) -> None:
        """Go on at the first line that begins so many bytes before the end."""
        start = os.fstat(self._file.fileno()).st_size - most_bytes
        if start > 0:
            self._file.seek(start - 1)
            self._file.readline()

    def begin_again_if_cut(self, size: int) -> None:
        """Somebody may have cut the file off in place; what is new begins at its beginning then."""
        if size < self._file.tell():
            self._file.seek(0)
            self._half = b""

    def lines(self) -> Iterator[str]:
        """The whole lines from here on."""
        while chunk := self._file.read(_CHUNK):
            *lines, self._half = (self._half + chunk).split(b"\n")
            yield from map(as_text, lines)

    def close(self) -> None:
        self._file.close()


@attrs.define
class OpenLog:
    """A log that is read to its end, and followed from there; lines count when they are whole."""

    path: Path
    # None: it is missing
    _now: _Tail | None = None
    # the file before it, rotated away while it was followed: some process may still write to it
    _before: _Tail | None = None

    def open(self, most_bytes: int | None = None) -> None:
        """Open it, at its beginning or so many bytes before its end; a missing one is opened when it appears.

        Raises: OSError: it cannot be read.
        """
        with contextlib.suppress(FileNotFoundError):
            self._now = _Tail(self.path.open("rb"))
            if most_bytes is not None:
                self._now.skip_to(most_bytes)

    def lines(self) -> Iterator[str]:
        """The whole lines that were written since the last call."""
        for tail in (self._before, self._now):
            if tail is not None:
                yield from tail.lines()
        if self._turn_over() and self._now is not None:
            yield from self._now.lines()

    def close(self) -> None:
        for tail in (self._before, self._now):
            if tail is not None:
                tail.close()
        self._before = self._now = None

    def _turn_over(self) -> bool:
        """Return whether there is something new to read: another file is in place, or it was cut off."""
        try:
            there = self.path.stat()
        except OSError:
            return False
        if self._now is not None and self._now.identity == (there.st_dev, there.st_ino):
            self._now.begin_again_if_cut(there.st_size)
            return True
        if self._before is not None:
            self._before.close()
        self._before, self._now = self._now, None
        with contextlib.suppress(OSError):
            self._now = _Tail(self.path.open("rb"))
        return True


def as_text(line: bytes) -> str:
    return line.rstrip(b"\n").decode(errors="replace")


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# records that are shown where nothing else says how many, and the bytes of each log in which they are sought
_LINES: Final = 200
_TAIL_BYTES: Final = 1 << 20
_COLORS: Final = {"warning": "yellow", "error": "red", "critical": "red"}


@click.command(
    "logs",
    cls=Command,
    examples=(
        "gantry logs -f",
        "gantry logs --job 17",
        "gantry logs --since '2h ago' --level warning",
        "gantry logs --daemon luxid --daemon wconfd --since yesterday --until '1h ago'",
        "gantry logs --job 17 --output json | jq -r .event",
    ),
)
@click.option("-f", "--follow", "is_following", is_flag=True, help="Go on with what is written, until Ctrl-C.")
@click.option("--job", "job_id", type=click.IntRange(min=1), help="Only what is logged of this job.")
@click.option("--since", help="Not before, such as 2h (ago), yesterday, '2026-11-21 02:00'.")
@click.option("--until", help="Not after.")
@click.option("--level", default=LEVELS[0], type=click.Choice(LEVELS), help="This level and worse ones.")
@click.option(
    "--daemon", "daemons", multiple=True, help="Only its log; may be given again. 'forkserver' has the jobs'."
)
@click.option("-n", "--lines", "count", type=click.IntRange(min=0), help="Show the last so many; 0: all. Default 200.")
def logs(
    is_following: bool,
    job_id: int | None,
    since: str | None,
    until: str | None,
    level: str,
    daemons: Sequence[str],
    count: int | None,
) -> int:
    """Show the logs of all daemons in the order of time, rotated files included.

    Without --since, --job and -n the last 200 records are shown. Times in the logs are UTC. Where a unit sends its
    output to the journal, what a daemon prints beside its log is there: journalctl -u 'gantry-*'.
    """
    if is_following and until is not None:
        raise InvalidRequest("--follow goes on without end, and --until names one; give one of them")
    choice = LogChoice(_stamp(since), _stamp(until), level, job_id)
    if count is None:
        count = _LINES if since is None and job_id is None else 0
    # what is asked for may lie farther back
    is_tail = (since, until, job_id, level) == (None, None, None, LEVELS[0]) and 0 < count <= _LINES
    paths = installation().paths
    files = log_files(paths, daemons)
    _tell_of_journal(files, paths)
    with _opened(files, _TAIL_BYTES if is_tail else None) as reading:
        if not reading.logs:
            complain("no log can be read; they are for root and the owner of the installation")
            return FAILED
        # made before anything is read, so that nothing is missed between
        watch = _watch(files[0].path.parent) if is_following else None
        shown = _show(reading.backlog(choice, is_tail=is_tail), count)
        if not shown and watch is None:
            remark("no log record matches; logs are kept for a limited time")
        if watch is not None:
            trio.run(_follow, reading, choice, watch)
    return DONE


_KINDS: Final = EventKind.MODIFY | EventKind.CREATE | EventKind.MOVED_TO
# seconds between two looks at the logs while the kernel does not tell of news
_LOOK_S: Final = 1.0


def _watch(folder: Path) -> FolderWatch:
    def tell(why: str) -> None:
        warn(f"the logs are read again each second, as they cannot be watched: {why}")

    return FolderWatch(folder, kinds=_KINDS, look_s=_LOOK_S, told=tell)


class _Reading:
    """The logs that can be read."""

    def __init__(self, logs: Sequence[tuple[LogFile, OpenLog]]) -> None:
        self.logs = logs

    def backlog(self, choice: LogChoice, *, is_tail: bool) -> Iterator[LogRecord]:
        """What is wanted of the past."""
        chains = [
            read_records(self._lines(file, log, choice, is_tail=is_tail), choice.since) for file, log in self.logs
        ]
        return filter(choice.wants, in_order(chains))

    def news(self, choice: LogChoice) -> list[LogRecord]:
        """What was written since."""
        return list(filter(choice.wants, in_order([read_records(log.lines()) for _, log in self.logs])))

    def _lines(self, file: LogFile, log: OpenLog, choice: LogChoice, *, is_tail: bool) -> Iterator[str]:
        if not is_tail:
            since = _seconds(choice.since)
            for path in changed_since(file.rotated(), since):
                yield from lines_of(path)
        yield from log.lines()

    def __enter__(self) -> "_Reading":
        return self

    def __exit__(self, *why: object) -> None:
        for _, log in self.logs:
            log.close()


def _opened(files: Iterable[LogFile], most_bytes: int | None) -> _Reading:
    found = []
    for file in files:
        log = OpenLog(file.path)
        try:
            log.open(most_bytes)
        except OSError as error:
            warn(f"the log of {file.name} cannot be read: {error.strerror or error}")
            continue
        found.append((file, log))
    return _Reading(found)


async def _follow(reading: _Reading, choice: LogChoice, watch: FolderWatch) -> None:
    async with watch:
        while True:
            _show(reading.news(choice), 0)
            events = await watch.events()
            if any(event.kind & EventKind.FOLDER_GONE for event in events):
                remark(f"the folder '{watch.folder}' was removed")
                return


def _show(records: Iterable[LogRecord], count: int) -> int:
    """Args: count: the last so many; 0: all. Returns: how many were shown."""
    is_json, has_color, shown = wants_json(), uses_color(), 0
    for record in deque(records, count) if count else records:
        shown += 1
        if is_json:
            say_json(record.to_json())
            continue
        for line in map(defused, record.lines):
            color = _COLORS.get(record.level) if has_color else None
            say_styled(click.style(line, fg=color) if color else line)
    write("")
    return shown


def _tell_of_journal(files: Iterable[LogFile], paths: Paths) -> None:
    """Say of daemons that run without a log file where their log is."""
    for file in files:
        with contextlib.suppress(OSError, NotFound):
            if not file.path.exists() and find_daemon(paths, file.name) is not None:
                where = f"look in the journal: journalctl -o cat -u gantry-{file.name}"
                remark(f"{file.name} runs, and there is no '{file.path}'; if it logs to standard error, {where}")


def _stamp(text: str | None) -> str:
    return "" if text is None else stamp_of(parse_instant(text, time.time(), None, Toward.PAST))


def _seconds(stamp: str) -> float:
    return LogRecord(stamp, "", "", "", "", ()).at if stamp else 0.0

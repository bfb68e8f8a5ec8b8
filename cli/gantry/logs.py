"""`gantry logs`: the logs of all daemons together, in the order of time.

Source: DESIGN section 16.
"""

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import trio

from cli.commands import Command
from cli.context import installation, uses_color, wants_json
from cli.exitcodes import DONE, FAILED
from cli.logreading.logfiles import LogFile, OpenLog, changed_since, lines_of, log_files
from cli.screen import complain, remark, say_json, say_styled, warn, write
from common.errors import InvalidRequest, NotFound
from common.paths import Paths
from common.system.daemons.running import find_daemon
from common.system.watch import EventKind, FolderWatch
from common.words.daemonlog import LEVELS, LogChoice, LogRecord, in_order, read_records, stamp_of
from common.words.instants import Toward, parse_instant
from common.words.text import defused

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
@click.option("-n", "--lines", "count", type=click.IntRange(min=0), help="The last so many; 0: all. Default 200.")
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
            remark("no record of the logs is like that; they are kept for a while only")
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
                remark(f"the folder '{watch.folder}' is gone")
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

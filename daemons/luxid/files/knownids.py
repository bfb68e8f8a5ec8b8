"""The highest id of a job that is known here, so that no id is used twice, whatever has been lost.

Theory. The serial is durable before any job that it covers. So a serial that is missing beside other files, or is
lower than the id of a job that has left a trace, was lost, or is an old copy. Then everything counts that names a
job: also keys and notes of submissions, which a crash may leave for ids that were never used; last runs of schedules,
watermarks of filter rules, owners of locks, commands of this node, and the record of removals. The id of a job whose
process lives is among them: its livelock has it. Beyond them `GAP` ids are left out, for jobs of which no trace is
left.

A folder without any trace and without a configuration is new, and begins at 1. An error of the disk decides nothing.

Source: DESIGN section 11, "ids after a loss of `serial`".
"""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import attrs
import orjson

from common.durable.folders import is_odd
from common.ids import JobId
from common.paths import WAITS_FILE_JOBS, Paths
from common.queue.sidefiles import jobs_in
from daemons.luxid.files.queuefolder import read_serial
from daemons.luxid.removals import read_removals

# ids left out after a loss, and after a move of the master; more than a file of waits stands for
GAP: Final = 1000
_JOB_PREFIX: Final = "job-"
_NUMBER: Final = re.compile(r"\d+", re.ASCII)
_JOB_FILE: Final = re.compile(r"\.?job-(\d+)(?:[.-].*)?", re.ASCII)
_LIVELOCK: Final = re.compile(r"\.?job_(\d+)_.*", re.ASCII)
_MESSAGE: Final = re.compile(r"(\d+)\..*", re.ASCII)
_NOTE: Final = re.compile(r"batch-(\d+)-(\d+)", re.ASCII)
# in files of others: a run of a schedule, the watermark of a rule, the livelock of an owner, the key of a command
_IN_SCHEDULES: Final = re.compile(rb'"job_id":\s*(\d+)')
_IN_CONFIG: Final = re.compile(rb'"watermark":\s*(\d+)')
_IN_LOCKS: Final = re.compile(rb'/job_(\d+)_|"(\d+)\.\d+\.\d+"')
# what SQLite says of a file that is no index of ours
_NO_INDEX: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


@attrs.frozen
class KnownIds:
    # the highest id of which there is a trace, or the serial; 0: none
    highest: JobId
    # whether ids beyond it may have been used
    are_lost: bool


def look_for_ids(paths: Paths) -> KnownIds:
    """Raises: DamagedFile: the serial is not a number, or the record of removals is none.
        OSError: whether ids were used cannot be told now.

    Cost: the names in the folders of jobs, outputs and livelocks, and the last entry of the history; if ids are lost,
    all files that name jobs are read.
    """
    serial, found = read_serial(paths), max(_of_jobs(paths), default=0)
    if serial is not None and serial >= found:
        return KnownIds(serial, are_lost=False)
    found = max(found, *_of_others(paths))
    # the serial is made first in a new folder, and with the configuration where there is one
    are_lost = serial is not None or found > 0 or paths.config_data.exists()
    return KnownIds(JobId(max(serial or 0, found)), are_lost)


def has_trace(paths: Paths, job_ids: range) -> bool:
    """Whether one of these jobs, which has no file any more, has existed and was not removed. Raises: as above."""
    removed = read_removals(paths).jobs
    sought = {job_id for job_id in job_ids if job_id not in removed}
    if not sought:
        return False
    places = (paths.output_file, paths.error_output_file, paths.job_log)
    if any(place(job_id).exists() for job_id in sought for place in places):
        return True
    if not sought.isdisjoint(_matching(_LIVELOCK, _names(paths.livelocks))):
        return True
    histories = {paths.waits_file(job_id) for job_id in sought}
    if any(not sought.isdisjoint(jobs_in(_content(path))) for path in histories):
        return True
    of_these = "SELECT max(id) FROM jobs WHERE id BETWEEN ? AND ?"
    return _in_history(paths.history, of_these, (min(sought), max(sought))) in sought


def _of_jobs(paths: Paths) -> Iterator[int]:
    """Ids of jobs that were durable before this trace was made."""
    # without a pattern, which would be dear for so many
    yield from (int(name[len(_JOB_PREFIX) :]) for name in _names(paths.queue) if _is_job(name))
    yield from _archived(paths)
    for folder in (paths.damaged, paths.job_logs, paths.output):
        yield from _matching(_JOB_FILE, _names(folder))
    yield from _matching(_JOB_FILE, _names_below(paths.set_aside))
    yield from _matching(_LIVELOCK, _names(paths.livelocks))
    # at least; how many more is within the gap
    yield from (int(name) * WAITS_FILE_JOBS for name in _names(paths.waits) if _NUMBER.fullmatch(name))
    yield _in_history(paths.history)
    removed = read_removals(paths)
    yield max(removed.begun_at, max((last for _, last in removed.jobs.pairs[-1:]), default=0))


def _of_others(paths: Paths) -> Iterator[int]:
    yield 0
    yield from _matching(_MESSAGE, [*_names(paths.messages), *_names(paths.node_commands)])
    # a temporary file of a job that was never in place
    yield from _matching(_JOB_FILE, _names(paths.queue))
    for name in _names(paths.submissions):
        if match := _NOTE.fullmatch(name):
            yield int(match[1]) + int(match[2]) - 1
        else:
            yield _of_key(_content(paths.submissions / name))
    yield from _inside(_IN_SCHEDULES, paths.schedules_data)
    yield from _inside(_IN_CONFIG, paths.config_data)
    for path in (paths.locks_data, paths.locks_data.with_name("locks.data.journal"), paths.may_run_data):
        yield from _inside(_IN_LOCKS, path)


def _is_job(name: str) -> bool:
    return name.startswith(_JOB_PREFIX) and name.isascii() and name[len(_JOB_PREFIX) :].isdigit()


def _archived(paths: Paths) -> Iterator[int]:
    folders = sorted((int(name) for name in _names(paths.archive) if _NUMBER.fullmatch(name)), reverse=True)
    for folder in folders:
        if highest := max(_matching(_JOB_FILE, _names(paths.archive / str(folder))), default=0):
            yield highest
            return


def _in_history(path: Path, query: str = "SELECT max(id) FROM jobs", values: tuple[int, ...] = ()) -> int:
    if not path.exists() or any(is_odd(f"{path}{ending}") for ending in ("", "-wal", "-shm")):
        # it is made anew, and says nothing
        return 0
    try:
        # may write, to undo a change that a killed luxid left half done: without that nothing can be read
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as history:
            (highest,) = history.execute(query, values).fetchone()
            return int(highest or 0)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_INDEX:
            # it is made anew, and says nothing
            return 0
        raise OSError(None, f"the history cannot be read: {error}", str(path)) from error


def _of_key(content: bytes) -> int:
    try:
        value = orjson.loads(content)
        return int(value["first_id"]) + int(value["count"]) - 1
    except (ValueError, KeyError, TypeError):
        return 0


def _inside(pattern: "re.Pattern[bytes]", path: Path) -> Iterator[int]:
    for match in pattern.finditer(_content(path)):
        yield int(next(group for group in match.groups() if group is not None))


def _matching(pattern: "re.Pattern[str]", names: Iterable[str]) -> Iterator[int]:
    return (int(match[1]) for name in names if (match := pattern.fullmatch(name)))


def _names(folder: Path) -> list[str]:
    """The names in a folder; a missing one has none, nor has a file. Raises: OSError."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _names_below(folder: Path) -> Iterator[str]:
    """The names of all files below a folder; a missing one has none. Raises: OSError."""
    for _, _, names in os.walk(folder, onerror=_unless_missing):
        yield from names


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _content(path: Path) -> bytes:
    """Raises: OSError."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return b""

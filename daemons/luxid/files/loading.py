"""Read the whole queue when luxid starts, before its event loop.

A file that is not a job is moved away, with a log line that says which and why; the other jobs are served. An
unreadable file is waited for, because its content, and its effect on other jobs, is unknown. Temporary files of writes
that a crash interrupted are removed, except those of living jobs: their processes may be writing at the moment.

Source: DESIGN section 6, "Restart"; luxid.md 3, 5.10.
"""

import contextlib
import functools
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import attrs
import orjson

from common.durable.atomicfile import remove_leftovers
from common.durable.folders import is_odd, sync_folders
from common.errors import DamagedFile
from common.ids import JobId
from common.paths import WAITS_FILE_JOBS, Paths
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from common.system.livelock import is_alive
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.core.queue.recovery import Fate, judge_fate
from daemons.luxid.core.submission.keyed import KeyedSubmission
from daemons.luxid.files.queuefiles import Changes, LocalChanges
from daemons.luxid.files.store import JobLogs, read_serial
from daemons.luxid.files.submissionkeys import forget_unused, load_keys, settle_batches
from daemons.luxid.removals import read_removals
from daemons.luxid.turns import lasting

# The highest id of a job that is known here, so that no id is used twice, whatever has been lost.
#
# Theory. The serial is durable before any job that it covers. So a serial that is missing beside other files, or is
# lower than the id of a job that has left a trace, was lost, or is an old copy. Then everything counts that names a
# job: also keys and notes of submissions, which a crash may leave for ids that were never used; last runs of schedules,
# watermarks of filter rules, owners of locks, commands of this node, and the record of removals. The id of a job whose
# process lives is among them: its livelock has it. Beyond them `GAP` ids are left out, for jobs of which no trace is
# left.
#
# A folder without any trace and without a configuration is new, and begins at 1. An error of the disk decides nothing.
#
# Source: DESIGN section 11, "ids after a loss of `serial`".


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


def _of_jobs(paths: Paths) -> Iterator[int]:
    """Ids of jobs that were durable before this trace was made."""
    # without a pattern, which would be dear for so many
    yield from (int(name[len(_JOB_PREFIX) :]) for name in _names(paths.queue) if _is_job(name))
    yield from _archived(paths)
    for folder in (paths.damaged, paths.job_logs, paths.output):
        yield from _matching(_JOB_FILE, _names(folder))
    yield from _matching(_JOB_FILE, _names_below(paths.lost_found))
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
    for path in (paths.locks_data, paths.locks_data.with_name("locks.data.journal"), paths.ghosts_data):
        yield from _inside(_IN_LOCKS, path)


def _is_job(name: str) -> bool:
    return name.startswith(_JOB_PREFIX) and name.isascii() and name[len(_JOB_PREFIX) :].isdigit()


def _archived(paths: Paths) -> Iterator[int]:
    folders = sorted((int(name) for name in _names(paths.archive) if _NUMBER.fullmatch(name)), reverse=True)
    for folder in folders:
        if highest := max(_matching(_JOB_FILE, _names(paths.archive / str(folder))), default=0):
            yield highest
            return


def _in_history(path: Path) -> int:
    if not path.exists() or any(is_odd(f"{path}{ending}") for ending in ("", "-wal", "-shm")):
        # it is made anew, and says nothing
        return 0
    try:
        # may write, to undo a change that a killed luxid left half done: without that nothing can be read
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as history:
            (highest,) = history.execute("SELECT max(id) FROM jobs").fetchone()
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


_JOB: Final = re.compile(r"job-(\d+)", re.ASCII)
_TEMP: Final = re.compile(r"(?:job-(\d+)|serial|version|drain)-.*\.tmp", re.ASCII)
# bytes: more than most job files have, so that one call reads them whole
_MOST_FILES: Final = 8192
_log: Final = get_log(__name__)


@attrs.frozen(weakref_slot=False)
class FoundJob:
    job: Job
    fate: Fate


@attrs.frozen
class FoundQueue:
    # jobs, ascending by id
    jobs: tuple[FoundJob, ...]
    # highest id that is known here to have been used
    highest_id: JobId
    # submissions of the last day that have a key
    keys: tuple[KeyedSubmission, ...] = ()
    # whether the serial is missing, or lower than the highest id: others may know of higher ones
    has_lost_ids: bool = False


def load_queue(
    paths: Paths,
    pause: Callable[[float], None] = time.sleep,
    changes: Changes | None = None,
    *,
    takes_up: bool = False,
) -> FoundQueue:
    """Read all live jobs and judge their fate; an unreadable file is waited for.

    Args:
        pause: waits some seconds; its exceptions end the loading.
        changes: carries out changes of files; None: there are no other nodes.
        takes_up: as for `judge_fate`.
    Raises: OSError: the folder cannot be read or synced, or a damaged file cannot be moved away.
    Cost: about 12 µs a job, where its file is in memory.
    """
    changes = changes or LocalChanges()
    judge = functools.partial(judge_fate, takes_up=takes_up)
    # before keys and notes of submissions without jobs are removed
    known = _look_patiently(paths, pause)
    names = os.listdir(paths.queue)
    ids = sorted(int(match[1]) for name in names if (match := _JOB.fullmatch(name)))
    with lasting():
        folder = str(paths.queue)
        read = functools.partial(_load_job, paths, folder, pause=pause, changes=changes, judge=judge)
        jobs = tuple(found for job_id in ids if (found := read(JobId(job_id))) is not None)
    alive = {found.job.job_id for found in jobs if found.fate is Fate.ALIVE}
    _remove_temps(paths, names, alive)
    _remove_own_temps(paths)
    # writers may have died before their fsync, and a loss of power must not undo what luxid reports
    sync_folders([paths.queue])
    jobs = _with_logs(paths, jobs)
    if gone := settle_batches(paths, (found.job for found in jobs), changes):
        jobs = tuple(found for found in jobs if found.job.job_id not in gone)
    unended = {found.job.job_id for found in jobs if found.fate is not Fate.ENDED}
    keys = load_keys(paths, time.time(), changes, unended)
    if keys:
        keys = forget_unused(paths, keys, {found.job.job_id for found in jobs}, changes)
    return FoundQueue(jobs, known.highest, tuple(keys), known.are_lost)


def _with_logs(paths: Paths, jobs: tuple[FoundJob, ...]) -> tuple[FoundJob, ...]:
    """Take in the log lines that dead processes could not write into their jobs' files; remove stale logs."""
    logged = {job_id for name in os.listdir(paths.job_logs) if (job_id := _id_of(name)) is not None}
    if not logged:
        return jobs
    going_on = {found.job.job_id for found in jobs if found.fate is not Fate.ENDED}
    for job_id in logged - going_on:
        paths.job_log(job_id).unlink(missing_ok=True)
    logs = JobLogs(paths)
    return tuple(
        attrs.evolve(found, job=logs.complete(found.job))
        if found.job.job_id in logged and found.fate is Fate.CONTINUE
        else found
        for found in jobs
    )


def _id_of(name: str) -> JobId | None:
    return JobId(int(match[1])) if (match := _JOB.fullmatch(name)) else None


def _load_job(
    paths: Paths,
    folder: str,
    job_id: JobId,
    *,
    pause: Callable[[float], None],
    changes: Changes,
    judge: Callable[..., Fate],
) -> FoundJob | None:
    # without Path objects, which cost as much as reading the file
    path = f"{folder}/job-{job_id}"
    try:
        job = decode_job(_read_patiently(path, pause), path, packed=True)
        if job.job_id != job_id:
            raise DamagedFile(f"{path} holds job {job.job_id}")
    except FileNotFoundError:
        # the file was removed since the folder was listed
        return None
    except (DamagedFile, IsADirectoryError) as error:
        _log.error("job.damaged", job=job_id, reason=error, moved_to=paths.damaged)
        changes.move([(Path(path), paths.damaged / os.path.basename(path))])
        return None
    # the fate of an ended job does not depend on its process
    may_live = job.livelock is not None and job.next_index is not None
    return FoundJob(job, judge(job, is_alive=may_live and is_alive(job.livelock or "")))


def _look_patiently(paths: Paths, pause: Callable[[float], None]) -> KnownIds:
    for pause_s in retry_pauses():
        try:
            return look_for_ids(paths)
        except OSError as error:
            effect = "no job is served until it is known which ids were used"
            _log.error("ids.unreadable", reason=error, effect=effect, retry_s=pause_s)
        pause(pause_s)
    raise AssertionError("pauses never end")


def _read_patiently(path: str, pause: Callable[[float], None]) -> bytes:
    """Raises: FileNotFoundError, IsADirectoryError: only these errors decide anything about a job."""
    for pause_s in retry_pauses():
        try:
            return _read(path)
        except (FileNotFoundError, IsADirectoryError):
            raise
        except OSError as error:
            effect = "no job is served until it is read; move the file away to go on without it"
            _log.error("job.unreadable", file=path, reason=error, effect=effect, retry_s=pause_s)
        pause(pause_s)
    raise AssertionError("pauses never end")


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(fd, _MOST_FILES)
        while len(content) >= _MOST_FILES and (more := os.read(fd, len(content))):
            content += more
        return content
    finally:
        os.close(fd)


def _remove_temps(paths: Paths, names: Iterable[str], alive: set[JobId]) -> None:
    for name in names:
        # most are job files, for which a pattern is dear
        match = _TEMP.fullmatch(name) if name.endswith(".tmp") else None
        if match and not (match[1] and int(match[1]) in alive):
            (paths.queue / name).unlink(missing_ok=True)


def _remove_own_temps(paths: Paths) -> None:
    """Remove temporary files that only luxid writes; no other luxid is running now."""
    remove_leftovers(paths.submissions, lambda _: True)
    own = {paths.watcher_pause.name, paths.removals.name, paths.notify_since.name}
    remove_leftovers(paths.data, own.__contains__)
    for message in paths.messages.glob("*.tmp"):
        message.unlink(missing_ok=True)

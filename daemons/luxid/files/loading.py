"""Read the whole queue when luxid starts, before its event loop.

A file that is not a job is moved away, with a log line that says which and why; the other jobs are served. An
unreadable file is waited for, because its content, and its effect on other jobs, is unknown. Temporary files of writes
that a crash interrupted are removed, except those of living jobs: their processes may be writing at the moment.

Source: DESIGN section 6, "Restart"; luxid.md 3, 5.10.
"""

import functools
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs

from common.durable.atomicfile import remove_leftovers
from common.durable.folders import sync_folders
from common.errors import DamagedFile
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from common.system.livelock import is_alive, livelocks_of_jobs, process_of
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.core.queue.recovery import Fate, judge_fate
from daemons.luxid.core.submission.keyed import KeyedSubmission
from daemons.luxid.files.knownids import KnownIds, look_for_ids
from daemons.luxid.files.queuefiles import Changes, LocalChanges
from daemons.luxid.files.store import JobLogs
from daemons.luxid.files.submissionkeys import forget_unused, is_there, load_keys, settle_batches
from daemons.luxid.removals import read_removals
from daemons.luxid.turns import lasting

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
    # before the files are read: a process that does not live now has written its last
    living = _living_patiently(paths, pause)
    names = os.listdir(paths.queue)
    ids = sorted(int(match[1]) for name in names if (match := _JOB.fullmatch(name)))
    with lasting():
        folder = str(paths.queue)
        read = functools.partial(_load_job, paths, folder, living=living, pause=pause, changes=changes, judge=judge)
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
    live, removed = {found.job.job_id for found in jobs}, read_removals(paths).jobs
    for job_id in logged - going_on:
        log = paths.job_log(job_id)
        # lines of a lost job show that it had started
        if job_id in removed or is_there(paths, job_id, live) or not log.stat().st_size:
            log.unlink(missing_ok=True)
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
    living: Mapping[int, str],
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
    if job.next_index is None or not (job.livelock or living):
        return FoundJob(job, judge(job, is_alive=False))
    if job.livelock is not None and is_alive(job.livelock):
        return FoundJob(job, judge(job, is_alive=True))
    if (livelock := living.get(job_id)) is None:
        return FoundJob(job, judge(job, is_alive=False))
    # its process has written nothing yet: it waits for its locks, and is only known by its livelock
    job = attrs.evolve(job, livelock=livelock, process_id=process_of(livelock))
    return FoundJob(job, judge(job, is_alive=True))


def _living_patiently(paths: Paths, pause: Callable[[float], None]) -> Mapping[int, str]:
    """The livelocks of the job processes that live, by the ids of their jobs."""
    for pause_s in retry_pauses():
        try:
            found = livelocks_of_jobs(paths.livelocks)
        except FileNotFoundError:
            return {}
        except OSError as error:
            effect = "no job is served until it is known which processes live"
            _log.error("livelocks.unreadable", reason=error, effect=effect, retry_s=pause_s)
        else:
            return {job_id: livelock for job_id, livelock in found.items() if is_alive(livelock)}
        pause(pause_s)
    raise AssertionError("pauses never end")


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

"""The files of the master's queue as other nodes get them; all functions are for threads.

Source: noded.md 6.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from common.ids import JobId
from common.paths import Paths
from common.system.log import get_log
from daemons.luxid.core.copies.backlog import StateName
from daemons.luxid.core.copies.comparing import JobDigest
from daemons.luxid.removals import read_removals
from protocol.noded.names import REMOVALS, SUBMISSIONS, WAITS, may_be_written

# jobs of which master and node are compared at a time
COMPARED_AT_ONCE: Final = 500
# bytes of a file of ours beyond which other nodes do not get it
MOST_STATE_BYTES: Final = 4 * 2**20
_JOB: Final = "job-"
_log: Final = get_log(__name__)


@attrs.frozen
class FoundJob:
    content: bytes
    is_archived: bool


@attrs.frozen
class FoundJobs:
    found: Mapping[JobId, FoundJob]
    # jobs without a file
    gone: tuple[JobId, ...]
    # jobs whose files cannot be read now
    unreadable: Mapping[JobId, OSError]


def read_jobs(paths: Paths, job_ids: Iterable[JobId]) -> FoundJobs:
    """Read the files of these jobs, wherever they lie."""
    found: dict[JobId, FoundJob] = {}
    gone: list[JobId] = []
    unreadable: dict[JobId, OSError] = {}
    for job_id in job_ids:
        try:
            job = _read_job(paths, job_id)
        except OSError as error:
            unreadable[job_id] = error
        else:
            if job is None:
                gone.append(job_id)
            else:
                found[job_id] = job
    return FoundJobs(found, tuple(gone), unreadable)


def digests(jobs: FoundJobs) -> Mapping[JobId, JobDigest]:
    return {job_id: JobDigest(digest(job.content), job.is_archived) for job_id, job in jobs.found.items()}


def digest(content: bytes) -> str:
    """As node daemons tell it."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def all_jobs(paths: Paths) -> Iterator[Sequence[JobId]]:
    """The ids of all live and archived jobs, some at a time, live ones first. Raises: OSError."""
    for folder in (paths.queue, *_archive_folders(paths)):
        ids = _jobs_in(folder)
        for start in range(0, len(ids), COMPARED_AT_ONCE):
            yield ids[start : start + COMPARED_AT_ONCE]


def read_text(path: Path) -> bytes | None:
    """The content of a small file; None: there is none. Raises: OSError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _read_job(paths: Paths, job_id: JobId) -> FoundJob | None:
    # in this order: a job is moved from the one to the other, and never back
    for path, is_archived in ((paths.job_file(job_id), False), (paths.archived_job_file(job_id), True)):
        try:
            return FoundJob(path.read_bytes(), is_archived)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return None


def _archive_folders(paths: Paths) -> list[Path]:
    return [paths.archive / name for name in sorted(os.listdir(paths.archive), reverse=True) if name.isdigit()]


def _jobs_in(folder: Path) -> list[JobId]:
    names = os.listdir(folder)
    return sorted(
        JobId(int(name[len(_JOB) :])) for name in names if name.startswith(_JOB) and name[len(_JOB) :].isdigit()
    )


def read_states(paths: Paths, names: Iterable[StateName]) -> Mapping[StateName, bytes | None]:
    """Read files of ours; None: there is no such file, or it is too large for other nodes. Raises: OSError."""
    return {name: _read_state(paths.data / name) for name in names}


def _read_state(path: Path) -> bytes | None:
    content = read_text(path)
    if content is None or len(content) <= MOST_STATE_BYTES:
        return content
    _log.warning("copies.too_large", file=path, bytes=len(content), limit=MOST_STATE_BYTES, effect="it is not copied")
    return None


def all_states(paths: Paths) -> Iterator[Sequence[StateName]]:
    """The names of all files of ours that other nodes get, some at a time. Raises: OSError."""
    if read_removals(paths).names_any:
        yield [StateName(REMOVALS)]
    for folder in (SUBMISSIONS, WAITS):
        names = [f"{folder}/{name}" for name in sorted(os.listdir(paths.data / folder))]
        found = [StateName(name) for name in names if may_be_written(name)]
        for start in range(0, len(found), COMPARED_AT_ONCE):
            yield found[start : start + COMPARED_AT_ONCE]

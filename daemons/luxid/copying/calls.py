"""The calls that bring parts of the master's queue to a node.

Source: noded.md 6 and 8.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, assert_never

import attrs

from common.ids import JobId
from common.paths import Paths
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.core.copies.backlog import JobDigest, QueueFact, StateName
from daemons.luxid.removals import read_removals
from protocol.noded.call import Content, NodeCall
from protocol.noded.clients.line import digest
from protocol.noded.commands import SetNodeWatcherPause
from protocol.noded.files import WireNames
from protocol.noded.statefiles import (
    REMOVALS,
    SUBMISSIONS,
    WAITS,
    FileRename,
    JobqueueRename,
    JobqueueSetDrainFlag,
    JobqueueUpdate,
    StateFile,
    WriteStateFiles,
    may_be_written,
)

# limits of time, seconds: a call of a file, and a call about many files
CALL_S: Final = 10.0
LONG_CALL_S: Final = 120.0


# The files of the master's queue as other nodes get them; all functions are for threads.
#
# Source: noded.md 6.


# jobs of which master and node are compared at a time
COMPARED_AT_ONCE: Final = 500
# bytes of a file of ours beyond which other nodes do not get it
MOST_STATE_BYTES: Final = 4 * 2**20
_JOB: Final = "job-"
_log: Final = get_log(__name__)


@attrs.frozen
class CopiedJob:
    content: bytes
    is_archived: bool


@attrs.frozen
class FoundJobs:
    found: Mapping[JobId, CopiedJob]
    # jobs without a file
    gone: tuple[JobId, ...]
    # jobs whose files cannot be read now
    unreadable: Mapping[JobId, OSError]


def read_jobs(paths: Paths, job_ids: Iterable[JobId]) -> FoundJobs:
    """Read the files of these jobs, wherever they lie."""
    found: dict[JobId, CopiedJob] = {}
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


def _read_job(paths: Paths, job_id: JobId) -> CopiedJob | None:
    # in this order: a job is moved from the one to the other, and never back
    for path, is_archived in ((paths.job_file(job_id), False), (paths.archived_job_file(job_id), True)):
        try:
            return CopiedJob(path.read_bytes(), is_archived)
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


class QueueCalls:
    """Makes calls from the files of the master."""

    def __init__(self, paths: Paths, names: WireNames) -> None:
        self._paths = paths
        self._names = names

    def write(self, files: Mapping[str, bytes]) -> NodeCall[None]:
        """Write many files at once: a call of ours. Args: files: by their names below the folder of data."""
        return WriteStateFiles(tuple(StateFile(name, Content(content)) for name, content in files.items()))

    def content(self, job_id: JobId, content: bytes) -> NodeCall[None]:
        """Write the file of a job as that of a live one."""
        return JobqueueUpdate(self._live(job_id), Content(content))

    def move(self, job_ids: Iterable[JobId]) -> NodeCall[tuple[None, ...]]:
        """Move jobs to the archive."""
        return JobqueueRename(tuple(FileRename(self._live(job_id), self._archived(job_id)) for job_id in job_ids))

    async def fact(self, fact: QueueFact) -> NodeCall[None]:
        """Raises: OSError: the file cannot be read."""
        match fact:
            case QueueFact.SERIAL:
                path = self._paths.serial_file
                return JobqueueUpdate(self._names.to_wire(path), Content(await in_thread(path.read_bytes)))
            case QueueFact.DRAIN:
                return JobqueueSetDrainFlag(await in_thread(self._paths.drain_file.exists))
            case QueueFact.WATCHER_PAUSE:
                text = await in_thread(read_text, self._paths.watcher_pause)
                return SetNodeWatcherPause(float(text) if text and text.strip().isdigit() else None)
            case _:
                assert_never(fact)

    def places(self, archived: Mapping[JobId, bool]) -> Sequence[str]:
        """Where the files of these jobs may be on a node.

        Args: archived: whether each is archived here; only then it may be in either place there.
        """
        return [
            *map(self._live, archived),
            *(self._archived(each) for each, is_archived in archived.items() if is_archived),
        ]

    def names(self, names: Sequence[str]) -> Sequence[str]:
        """Of files, by their names below the folder of data."""
        return [self._wire(name) for name in names]

    def told(self, names: Sequence[str], found: Mapping[str, str]) -> Mapping[str, str]:
        """The digests that a node has found, by the names below the folder of data."""
        return {name: found[wire] for name in names if (wire := self._wire(name)) in found}

    def live(self, job_ids: Iterable[JobId], found: Mapping[str, str]) -> Mapping[JobId, str]:
        """The digests of live jobs among those that a node has found."""
        return {job_id: found[name] for job_id in job_ids if (name := self._live(job_id)) in found}

    def archived(self, job_ids: Iterable[JobId], found: Mapping[str, str]) -> Mapping[JobId, str]:
        return {job_id: found[name] for job_id in job_ids if (name := self._archived(job_id)) in found}

    def _wire(self, name: str) -> str:
        return self._names.to_wire(self._paths.data / name)

    def _live(self, job_id: JobId) -> str:
        return self._names.to_wire(self._paths.job_file(job_id))

    def _archived(self, job_id: JobId) -> str:
        return self._names.to_wire(self._paths.archived_job_file(job_id))

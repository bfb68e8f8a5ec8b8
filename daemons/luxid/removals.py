"""The record of removals on disk, and what by it the master has lost.

Source: `daemons.luxid.core.copies.removals`; DESIGN section 11.
"""

import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs

from common.durable.atomicfile import FileWrite, write_file
from common.errors import DamagedFile
from common.ids import JobId
from common.paths import Paths
from daemons.luxid.core.copies.removals import Removals, decode_removals, encode_removals
from daemons.luxid.core.submission.keyed import is_outdated, key_of
from protocol.noded.statefiles import ARCHIVE, QUEUE, SUBMISSIONS, WAITS, is_kept_file, job_of, original_name

_JOB: Final = "job-"
_CONFIG: Final = "config.data"
_NOTE: Final = re.compile(rf"{SUBMISSIONS}/batch-(\d+)-(\d+)", re.ASCII)


def read_removals(paths: Paths) -> Removals:
    """The record as it is on disk; without a file it names nothing. Raises: DamagedFile, OSError."""
    try:
        content = paths.removals.read_bytes()
    except FileNotFoundError:
        return Removals()
    return decode_removals(content, str(paths.removals))


def begin_removals(paths: Paths, serial: JobId) -> None:
    """Begin the record where there is none, and check the one that is there. Raises: DamagedFile, OSError."""
    if os.path.lexists(paths.removals):
        read_removals(paths)
    else:
        write_file(paths.removals, encode_removals(Removals(begun_at=serial)))


@attrs.frozen
class RemovedNames:
    """What of some files the record is to name."""

    jobs: tuple[int, ...]
    waits: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        return not self.jobs and not self.waits


def named_by_record(paths: Paths, removed: Iterable[Path]) -> RemovedNames:
    """What the record is to name before these files are removed: jobs, live or archived, and histories of waits."""
    jobs, waits = [], []
    for path in removed:
        folder, name = path.parent, path.name
        number = name.removeprefix("job-")
        if folder == paths.waits and name.isdigit():
            waits.append(int(name))
        elif paths.queue in (folder, folder.parent.parent) and number.isdigit() and number is not name:
            jobs.append(int(number))
    return RemovedNames(tuple(jobs), tuple(waits))


def recording(paths: Paths, removed: RemovedNames) -> FileWrite | None:
    """The write by which the record names these; None: it does already.

    Raises: OSError: the record cannot be read.
    """
    try:
        before = read_removals(paths)
    except DamagedFile as error:
        # it was whole when luxid began
        raise OSError(error.message) from error
    after = before.with_jobs(removed.jobs).with_waits(removed.waits)
    return None if after is before else FileWrite(paths.removals, encode_removals(after))


@attrs.frozen
class Beyond:
    """What a node has and the master lacks, by the names on the node: in their places, or set aside."""

    # were removed on purpose
    removed: Sequence[str] = ()
    # were lost on the master, as far as anybody knows
    lost: Sequence[str] = ()
    # of jobs whose files are damaged on the master; these stay where they are
    damaged: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        """What has no place on the node."""
        return (*self.removed, *self.lost)

    def with_more(self, other: "Beyond") -> "Beyond":
        return Beyond((*self.removed, *other.removed), (*self.lost, *other.lost), (*self.damaged, *other.damaged))


NOTHING: Final = Beyond()


def judge_beyond(paths: Paths, names: Iterable[str]) -> Beyond:
    """What of these files of a node the master lacks; for threads. A key counts whatever its age.

    Args: names: below the folder of data; of files in their places or set aside.
    Raises: OSError, DamagedFile.
    """
    missing = [name for name in names if not _has(paths, name)]
    if not missing:
        return NOTHING
    # after the files: what is removed meanwhile is in the record
    removals = read_removals(paths)
    removed, lost, damaged = list[str](), list[str](), list[str]()
    for name in missing:
        original = original_name(name) or name
        if _is_removed(paths, removals, original):
            removed.append(name)
        else:
            (damaged if _is_damaged(paths, original) else lost).append(name)
    return Beyond(removed, lost, damaged)


def set_aside_here(paths: Paths) -> Sequence[str]:
    """What this node has set aside, as another one was the master, and the queue lacks still; for threads.

    Returns: names below the folder of data.
    Raises: OSError, DamagedFile.
    """
    found = [Path(at, name) for at, _, names in os.walk(paths.set_aside, onerror=_unless_missing) for name in names]
    names = [str(path.relative_to(paths.data)) for path in found]
    beyond = judge_beyond(paths, [name for name in names if original_name(name) is not None])
    now_s = time.time()
    return [
        name
        for name in (*beyond.lost, *beyond.damaged)
        if not (is_key(original_name(name) or name) and is_outdated_key(name, (paths.data / name).read_bytes(), now_s))
    ]


def is_key(name: str) -> bool:
    return name.startswith(f"{SUBMISSIONS}/") and _NOTE.fullmatch(name) is None


def is_outdated_key(name: str, content: bytes, now_s: float) -> bool:
    """Whether a key is too old for a client to repeat; so is a damaged one, which is of no use to anybody."""
    try:
        return is_outdated(key_of(name, content), now_s)
    except DamagedFile:
        return True


def _is_removed(paths: Paths, removals: Removals, name: str) -> bool:
    job_id = job_of(name)
    if job_id is not None:
        return job_id in removals.jobs
    if name.startswith(f"{WAITS}/"):
        return int(name.rpartition("/")[2]) in removals.waits
    note = _NOTE.fullmatch(name)
    if note is None:
        return False
    first, count = int(note[1]), int(note[2])
    jobs = [f"{QUEUE}/{_JOB}{job_id}" for job_id in range(first, first + count)]
    return all(_has(paths, job) or _is_damaged(paths, job) or _is_removed(paths, removals, job) for job in jobs)


def _has(paths: Paths, name: str) -> bool:
    """Whether the master has a file; of a job, wherever it lies.

    An archived copy in its place is none where the job is live: a backup was restored here, and the copy is newer.
    """
    original = original_name(name)
    if original is not None and is_kept_file(original):
        # a configuration is nothing to be fetched; of the others rows are, and then the node loses its copy
        return original == _CONFIG
    job = job_of(original or name)
    if job is None:
        return os.path.lexists(paths.data / (original or name))
    # in this order: a job is moved from the one to the other, and never back
    live = () if name.startswith(ARCHIVE) else (paths.job_file(job),)
    return any(map(os.path.lexists, (*live, paths.archived_job_file(job))))


def _is_damaged(paths: Paths, name: str) -> bool:
    job = job_of(name)
    return job is not None and os.path.lexists(paths.damaged / f"{_JOB}{job}")


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error

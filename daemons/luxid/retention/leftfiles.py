"""What lies on disk beside the files of ended jobs, for their removal; all functions are for threads."""

import os
import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from common.ids import JobId
from common.paths import Paths
from common.places.queuepaths import WAITS_FILE_JOBS

_PIECE: Final = re.compile(r"job-(\d+)(?:\.err)?(?:\.\d+)*", re.ASCII)
_LIVELOCK: Final = re.compile(r"job_(\d+)_.*", re.ASCII | re.DOTALL)


@attrs.frozen
class Piece:
    """A file of a job's output."""

    path: Path
    size: int


def outputs(paths: Paths) -> Mapping[JobId, Sequence[Piece]]:
    """The output of all jobs. Raises: OSError."""
    found: dict[JobId, list[Piece]] = {}
    with os.scandir(paths.output) as entries:
        for entry in entries:
            if (match := _PIECE.fullmatch(entry.name)) is not None:
                try:
                    piece = Piece(Path(entry.path), entry.stat(follow_symlinks=False).st_size)
                except FileNotFoundError:
                    # its job's process has just removed the oldest piece
                    continue
                found.setdefault(JobId(int(match[1])), []).append(piece)
    return found


def with_processes(paths: Paths) -> set[int]:
    """The jobs that have a livelock: they run, or have left a process. Raises: OSError."""
    return {int(match[1]) for name in os.listdir(paths.livelocks) if (match := _LIVELOCK.fullmatch(name)) is not None}


def unused_waits(
    paths: Paths, serial: int, kept: Iterable[int], live: Iterable[int], gone: Container[int]
) -> list[Path]:
    """The histories of waits whose jobs are all gone.

    Args:
        kept: ended jobs that are not removed.
        live: all jobs that are not archived.
        gone: jobs that are taken for removed, though their files exist.
    Raises: OSError.
    """
    used = {job_id // WAITS_FILE_JOBS for jobs in (kept, live) for job_id in jobs if job_id not in gone}
    # jobs of the last one may still come
    last = serial // WAITS_FILE_JOBS
    names = (name for name in os.listdir(paths.waits) if name.isascii() and name.isdigit())
    groups = sorted(group for group in map(int, names) if group < last and group not in used)
    return [paths.waits / str(group) for group in groups if not _has_jobs(paths, group, gone)]


def _has_jobs(paths: Paths, group: int, gone: Container[int]) -> bool:
    """Whether there is a file that the index does not know, such as a damaged one."""
    first = group * WAITS_FILE_JOBS
    ids = range(first, first + WAITS_FILE_JOBS)
    return any(job_id not in gone and is_on_disk(paths, job_id) for job_id in ids)


def is_on_disk(paths: Paths, job_id: int) -> bool:
    """Whether a file of the job exists, live, archived or damaged."""
    places = (paths.job_file(job_id), paths.archived_job_file(job_id), paths.damaged / f"job-{job_id}")
    return any(map(os.path.lexists, places))


def bytes_of(pieces: Iterable[Piece]) -> int:
    return sum(piece.size for piece in pieces)


def without(found: Mapping[JobId, Sequence[Piece]], job_ids: Collection[JobId]) -> Mapping[JobId, Sequence[Piece]]:
    """The outputs of other jobs."""
    return {job_id: pieces for job_id, pieces in found.items() if job_id not in job_ids}

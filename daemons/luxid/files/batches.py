"""Submissions of more than one job: taken whole or not at all, even through a crash.

Theory. Each job is a file of its own, and a crash between two renames leaves only some of them. So a batch is noted
before the first of its jobs exists: in a small durable file beside the keys that names the ids. The note is removed
when all jobs are durable, before the client gets a reply and before any of them may start. When the next luxid finds
such a note, it looks for the jobs: if all exist, the batch is taken; if some or none do, the rest is removed. On a file
system that does not order changes of folders, any of the jobs may be the missing one.
A single job needs no note.

Source: DESIGN section 11, "SubmitManyJobs".
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
import orjson

from common.durable.atomicfile import FileWrite
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobState
from common.system.log import get_log
from daemons.luxid.files.queuefiles import Changes

_NOTE: Final = re.compile(r"batch-(\d+)-(\d+)", re.ASCII)
_log: Final = get_log(__name__)


@attrs.frozen
class Batch:
    """A submission of several jobs, with consecutive ids."""

    note: Path
    job_ids: range
    # files that belong to the jobs, and are removed with them: the file of the submission's key
    beside: tuple[Path, ...]


def note_of(paths: Paths, first_id: JobId, count: int, beside: Iterable[Path]) -> FileWrite:
    """The note of a batch, which must be durable before the first of its jobs.

    Args:
        beside: files in the data folder to remove with the jobs, if the batch is not taken.
    """
    names = [str(path.relative_to(paths.data)) for path in beside]
    return FileWrite(paths.submissions / f"batch-{first_id}-{count}", orjson.dumps(names))


def settle_batches(paths: Paths, jobs: Iterable[Job], changes: Changes) -> frozenset[JobId]:
    """Settle batches that a crash has interrupted, before any of their jobs may start.

    Args:
        jobs: all live ones, as found.
    Returns:
        The jobs that were removed, because their batch was not whole.
    Raises: OSError.
    Durability: on return no loss of power brings a removed job back.
    """
    batches = list(_read_notes(paths))
    if not batches:
        return frozenset()
    live = {job.job_id: job for job in jobs}
    cut_off = [batch for batch in batches if _is_cut_off(paths, batch, live)]
    gone = frozenset(JobId(job_id) for batch in cut_off for job_id in batch.job_ids if job_id in live)
    for batch in cut_off:
        span = f"{batch.job_ids[0]}-{batch.job_ids[-1]}"
        _log.warning("submission.cut_off", jobs=span, effect="removed; its client was not answered")
    # remove a note last: as long as it exists, this is repeated
    changes.remove([paths.job_file(job_id) for job_id in sorted(gone)])
    changes.remove([path for batch in cut_off for path in batch.beside])
    changes.remove([batch.note for batch in batches])
    return gone


def _read_notes(paths: Paths) -> Iterator[Batch]:
    for note in sorted(paths.submissions.iterdir()):
        if match := _NOTE.fullmatch(note.name):
            first, count = int(match[1]), int(match[2])
            beside = tuple(paths.data / name for name in orjson.loads(note.read_bytes()))
            yield Batch(note, range(first, first + count), beside)


def _is_cut_off(paths: Paths, batch: Batch, live: Mapping[JobId, Job]) -> bool:
    there = [JobId(job_id) for job_id in batch.job_ids if is_there(paths, JobId(job_id), live)]
    # jobs of a batch with a note have not been started; if one has, the note has come back after a loss of power
    return len(there) < len(batch.job_ids) and all(_is_untouched(live.get(job_id)) for job_id in there)


def is_there(paths: Paths, job_id: JobId, live: Collection[JobId]) -> bool:
    """Whether a file of the job exists, live, archived or damaged."""
    if job_id in live:
        return True
    return any(place.exists() for place in (paths.archived_job_file(job_id), paths.damaged / f"job-{job_id}"))


def _is_untouched(job: Job | None) -> bool:
    return job is not None and job.livelock is None and all(op.state is JobState.QUEUED for op in job.ops)

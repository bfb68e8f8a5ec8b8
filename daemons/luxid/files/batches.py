"""Submissions of more than one job: taken whole or not at all, also through a crash.

Theory. Each job is a file of its own, and a crash between two renames leaves some of them. So a batch is noted before
the first of its jobs is there: a small file beside the keys, durable, that names the ids. It is removed when all
jobs are durable, before anybody is answered and before any of them may start. The next luxid that finds such a note
looks which jobs there are: all, and the batch is taken; some or none, and what there is of it is removed. On a file
system that does not order the changes of folders any of the jobs may be the missing ones.

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
    # files that stand for the jobs, and go with them: that of the submission's key
    beside: tuple[Path, ...]


def note_of(paths: Paths, first_id: JobId, count: int, beside: Iterable[Path]) -> FileWrite:
    """The note of a batch, to be durable before the first of its jobs.

    Args:
        beside: files in the data folder that are to be removed with the jobs, if the batch is not taken.
    """
    names = [str(path.relative_to(paths.data)) for path in beside]
    return FileWrite(paths.submissions / f"batch-{first_id}-{count}", orjson.dumps(names))


def settle_batches(paths: Paths, jobs: Iterable[Job], changes: Changes) -> frozenset[JobId]:
    """Finish what a crash has left of batches, before any of their jobs may start.

    Args:
        jobs: all live ones, as found.
    Returns:
        The jobs that were removed, since their batch was not whole.
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
    # a note is removed last: as long as it is there, this is done again
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
    # nothing of a batch with a note has been started; if something was, the note has come back after a loss of power
    return len(there) < len(batch.job_ids) and all(_is_untouched(live.get(job_id)) for job_id in there)


def is_there(paths: Paths, job_id: JobId, live: Collection[JobId]) -> bool:
    """Whether anything is left of a job: its file, live, archived or damaged."""
    if job_id in live:
        return True
    return any(place.exists() for place in (paths.archived_job_file(job_id), paths.damaged / f"job-{job_id}"))


def _is_untouched(job: Job | None) -> bool:
    return job is not None and job.livelock is None and all(op.state is JobState.QUEUED for op in job.ops)

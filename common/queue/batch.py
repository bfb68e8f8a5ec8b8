"""A batch: jobs submitted together, one a node or one for each value, of which only some run at once, and which stop
after failures.

It travels with its jobs: the trail of the first opcode of each has an entry with the source `gantry:batch`, such as

    id=b5f2c8a10b4d;place=3;jobs=20;at-most=2;failures=0;each=host,day

So it needs no file of its own, and is known again after a restart and on another master.

Source: DESIGN sections 13, "Fleet", and 16.
"""

import re
from collections.abc import Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.queue.jobs import Job, replace_op
from common.queue.reasons import ReasonEntry

SOURCE: Final = "gantry:batch"
# jobs of a batch; who looks at each of them must come to an end
MOST_JOBS: Final = 100_000
# at most 9 digits: more jobs than any queue has
_TEXT: Final = re.compile(
    r"id=([0-9a-zA-Z_-]{1,64});place=(\d{1,9});jobs=(\d{1,9})(?:;at-most=(\d{1,9}))?(?:;failures=(\d{1,9}))?"
    r"(?:;each=([a-z0-9_,]{1,400}))?",
    re.ASCII,
)


@attrs.frozen
class Batch:
    """The batch of a job, and the job's place in it."""

    batch_id: str
    # number of the job in its submission, from 1
    place: int
    # number of jobs
    size: int
    # number of its jobs that may run at once, at least 1; None: no limit
    at_most: int | None = None
    # number of failures after which its other jobs still begin; None: any
    failures: int | None = None
    # labels of its jobs whose values tell them apart, in the order given; empty: their nodes do
    each: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of its entry."""
        limits = (("at-most", self.at_most), ("failures", self.failures))
        # a limit above the number of jobs is none, and its digits may be more than can be read again
        told = [f";{name}={min(count, MOST_JOBS)}" for name, count in limits if count is not None]
        each = f";each={','.join(self.each)}" if self.each else ""
        return f"id={self.batch_id};place={self.place};jobs={self.size}{''.join(told)}{each}"


def batch_entry(batch: Batch, at_ns: int) -> ReasonEntry:
    """The entry with which a client names the batch of a job."""
    return ReasonEntry(SOURCE, batch.text, at_ns)


def check_batch(text: str) -> None:
    """Raises: InvalidRequest: the text of an entry names no batch."""
    if _read(text) is None:
        raise InvalidRequest(
            f"the job's batch '{text:.100}' cannot be read; write it as id=NAME;place=3;jobs=20, with at most "
            f"{MOST_JOBS} jobs, then if wanted ;at-most=N ;failures=N ;each=KEY,KEY"
        )


def batch_of_trail(trail: object) -> Batch | None:
    """The batch that a trail of a job file names; None: it has no such entry, or one that cannot be read."""
    for entry in trail if isinstance(trail, list | tuple) else ():
        # this runs for each job of a long queue
        if isinstance(entry, Sequence) and len(entry) > 1 and entry[0] == SOURCE:
            return _read(entry[1])
    return None


def batch_of(job: Job) -> Batch | None:
    """The batch of a job; None: it belongs to none."""
    return batch_of_trail(job.ops[0].input.get("reason")) if job.ops else None


def with_at_most(job: Job, at_most: int | None) -> Job:
    """The job with another limit of its batch; the very same one if it had this one. Args: at_most: None: no limit.

    Raises: InvalidRequest: it belongs to no batch.
    """
    batch = batch_of(job)
    if batch is None:
        raise InvalidRequest(f"job {job.job_id} belongs to no batch, of which some might run at once")
    if batch.at_most == at_most:
        return job
    first = job.ops[0]
    text = attrs.evolve(batch, at_most=at_most).text
    trail = [
        [SOURCE, text, *entry[2:]] if isinstance(entry, Sequence) and entry and entry[0] == SOURCE else entry
        for entry in first.input["reason"]
    ]
    return replace_op(job, 0, attrs.evolve(first, input={**first.input, "reason": trail}))


def _read(text: object) -> Batch | None:
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    place, size, at_most, failures = (None if number is None else int(number) for number in match.groups()[1:5])
    if not 1 <= (place or 0) <= (size or 0) <= MOST_JOBS:
        return None
    each = () if match[6] is None else tuple(match[6].split(","))
    # a limit of none would keep all its jobs for ever
    return Batch(match[1], place or 0, size or 0, at_most or None, failures, each)

"""Change jobs, and archive them.

Source: luxid.md section 2; `ChangeJobs` and `CancelJobs` are ours (DESIGN section 16).
"""

import bisect
import enum
from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Final, Self

import attrs

from common.errors import InvalidRequest
from common.ids import JobId
from common.queue.jobs import JobState
from common.queue.reasons import Batch, batch_entry, batch_of_trail, checked_batch
from common.queue.terms import NO_TERMS, Hold, JobTerms, read_use, trail_with_terms
from common.shapes import Lenient, Row, TaggedRow
from protocol.messages import Request

# Submit jobs.
#
# Opcodes travel as JSON objects: the registry (`common.opcodes.registry`) interprets them, and a client
# does not need it.
#
# Source: luxid.md section 2.


class OpcodeMark:
    """The marker for JSON objects that luxid reads as opcodes."""


OPCODE: Final = OpcodeMark()
# one opcode: {"OP_ID": "OP_...", parameters}
OpInput = Annotated[Mapping[str, object], OPCODE]

# opcodes that run one after the other; the first one's reason trail states the terms of the job
JobInput = tuple[OpInput, ...]


@attrs.frozen
class NewJob:
    """A job as somebody asks for it: opcodes that run one after the other, and the terms of the job as a whole."""

    ops: JobInput
    # shown instead of the summary; many jobs may have it
    name: str = ""
    # key -> value, as in {"team": "web"}
    labels: Mapping[str, str] = attrs.Factory(dict)
    # instant before which it does not begin, in seconds since 1970
    begin_at: float | None = None
    # words for a hold, which may be empty: it does not begin before it is released; null: it is not held
    hold: str | None = None
    # resources and their units, as in {"licences": 2, "web1:memory": 4294967296}
    uses: Mapping[str, int] = attrs.Factory(dict)

    def terms(self) -> JobTerms:
        """Raises: InvalidRequest: a use names no resource; the rules for terms are not checked."""
        hold = None if self.hold is None else Hold(why=self.hold)
        uses = tuple(read_use(key, count) for key, count in self.uses.items())
        return JobTerms(self.name, self.labels, self.begin_at, hold, uses)

    def to_input(self, now_ns: int, trace: str = "") -> JobInput:
        """The job as LUXI takes it; what it states here wins over what the trail of its first opcode states.

        Args: trace: `traceparent` of the span that submits it; "": none.
        Raises: InvalidRequest: as `terms`; or the trail states malformed terms.
        """
        wanted = attrs.evolve(self.terms(), trace=trace)
        if wanted == NO_TERMS or not self.ops:
            return self.ops
        first, trail = self.ops[0], self.ops[0].get("reason") or []
        if not isinstance(trail, list | tuple):
            # luxid refuses it
            return self.ops
        return ({**first, "reason": trail_with_terms(trail, wanted, now_ns)}, *self.ops[1:])


@attrs.frozen(kw_only=True)
class NewBatch:
    """The batch that the jobs of a submission are, in their order."""

    # 1 to 64 letters, digits, `_` and `-`; empty: a new one is chosen
    id: str = ""
    # number of its jobs that may run at once, at least 1; null: any number
    at_most: int | None = None
    # number of failures after which its other jobs still begin; null: any
    failures: int | None = None
    # keys of the labels whose values tell its jobs apart; empty: their nodes do
    each: tuple[str, ...] = ()


@attrs.frozen
class Submission:
    """Jobs to submit together.

    A dependency in `depends` of an opcode names a job by its id; -1 is the job before this one in the list, -2 the
    one before that.
    """

    # at least one
    jobs: tuple[NewJob, ...]
    # null: they are no batch
    batch: NewBatch | None = None

    def to_inputs(self, batch_id: str, now_ns: int, trace: str = "") -> tuple[JobInput, ...]:
        """The jobs as LUXI takes them; each of a batch says so in the trail of its first opcode.

        Args: batch_id: for a batch that names none. trace: as of `NewJob.to_input`.
        Raises: InvalidRequest: as `NewJob.to_input`; or a part of the batch is out of range.
        """
        jobs = tuple(job.to_input(now_ns, trace) for job in self.jobs)
        if self.batch is None:
            return jobs
        wanted, size = self.batch, len(jobs)
        batches = (
            checked_batch(Batch(wanted.id or batch_id, place, size, wanted.at_most, wanted.failures, wanted.each))
            for place in range(1, size + 1)
        )
        return tuple(_in_batch(job, batch, now_ns) for job, batch in zip(jobs, batches, strict=True))


def _in_batch(job: JobInput, batch: Batch, now_ns: int) -> JobInput:
    """Raises: InvalidRequest: it names a batch already."""
    trail = job[0].get("reason") or [] if job else None
    if not isinstance(trail, list | tuple):
        # luxid refuses it
        return job
    if batch_of_trail(trail) is not None:
        raise InvalidRequest("a job names a batch in its trail, and the submission has another; name it once")
    return ({**job[0], "reason": [*trail, batch_entry(batch, now_ns).to_wire()]}, *job[1:])


@attrs.frozen
class SubmitJob(Request[JobId]):
    """Take one job; returns its id when the job is durable."""

    METHOD = "SubmitJob"
    job: JobInput
    # key chosen by the client, unique for each submission: sent again, it gets the same id; ours
    key: str | None = None
    # name of the submitter, if the settings trust the caller to name one; ours
    user: str | None = None


@attrs.frozen
class SubmitJobToDrainedQueue(Request[JobId]):
    """As `SubmitJob`, but ignores the drain flag; for administrators."""

    METHOD = "SubmitJobToDrainedQueue"
    job: JobInput


@attrs.frozen
class Accepted(TaggedRow):
    """A job was taken; `[true, id]`."""

    TAG = True
    job_id: JobId


@attrs.frozen
class Refused(TaggedRow):
    """A job was refused, with the reason; `[false, message]`."""

    TAG = False
    message: str


SubmitAnswer = Accepted | Refused


@attrs.frozen
class SubmitManyJobs(Request[tuple[SubmitAnswer, ...]]):
    """Take several jobs at once; one result for each, in order."""

    METHOD = "SubmitManyJobs"
    jobs: tuple[JobInput, ...]
    # as for `SubmitJob`; ours
    key: str | None = None
    user: str | None = None
    # id of the job whose process submits them: its owner owns them, too; ours
    by_job: JobId | None = None


@attrs.frozen
class SubmittedOnce(Lenient):
    """What became of a submission under a key."""

    # one for each job, in order
    answers: tuple[SubmitAnswer, ...]
    # whether the same jobs were submitted before under this key: these are the answers of then
    is_earlier: bool


@attrs.frozen
class SubmitOnce(Request[SubmittedOnce]):
    """As `SubmitManyJobs`, under a key that a person or a script has chosen; ours.

    The same key with other jobs is refused.
    """

    METHOD = "SubmitOnce"
    jobs: tuple[JobInput, ...]
    key: str
    user: str | None = None
    by_job: JobId | None = None


@attrs.frozen
class ChangeResult(Row):
    """Whether a change was made, and a sentence about it."""

    is_done: bool
    message: str


@attrs.frozen
class CancelJob(Request[ChangeResult]):
    """Cancel a job."""

    METHOD = "CancelJob"
    job_id: JobId
    kill: bool = False


@attrs.frozen
class ChangeJobPriority(Request[ChangeResult]):
    """Give a job's unfinished opcodes another priority."""

    METHOD = "ChangeJobPriority"
    job_id: JobId
    priority: int


@attrs.frozen
class PickupJob(Request[bool]):
    """Always refused: it was internal to Ganeti's queue, and a client may still call it."""

    METHOD = "PickupJob"
    job_id: JobId


@attrs.frozen
class ArchiveJob(Request[bool]):
    """Archive a final job; false if it does not exist or is not final."""

    METHOD = "ArchiveJob"
    job_id: JobId


@attrs.frozen
class Archived(Row):
    """The number of jobs archived, and of jobs not examined for lack of time."""

    archived_count: int
    unchecked_count: int


@attrs.frozen
class AutoArchiveJobs(Request[Archived]):
    """Archive the jobs that ended more than `age` seconds ago."""

    METHOD = "AutoArchiveJobs"
    # seconds; negative: all final jobs
    age: int
    # seconds after which to stop looking
    timeout: int


@attrs.frozen
class AfterJob(Lenient):
    """A job that another one is to wait for."""

    job_id: JobId
    # states in which it may have ended: success, error or canceled
    states: tuple[JobState, ...] = (JobState.SUCCESS,)


@attrs.frozen(kw_only=True)
class NewTerms:
    """What to change of the terms of jobs that have no process; what is left out stays."""

    # empty: no name any more
    name: str | None = None
    # labels to set, by key, and keys to remove
    labels: Mapping[str, str] = attrs.Factory(dict)
    without_labels: tuple[str, ...] = ()
    # seconds since 1970; 0: at once
    begin_at: float | None = None
    # -10 (high), 0 (normal) or 10 (low)
    priority: int | None = None
    # units to take, by the key of the resource, as in {"licences": 2}, and keys of which none are taken any more
    uses: Mapping[str, int] = attrs.Factory(dict)
    without_uses: tuple[str, ...] = ()
    # seconds after which the command of the job is ended; 0: never
    timeout: float | None = None
    # number of further tries of its command
    retries: int | None = None
    # jobs of its batch that may run at once, as far as this job is concerned; 0: any number
    at_most: int | None = None
    # jobs to wait for, which came before it, and ids of jobs that are waited for no more
    after: tuple[AfterJob, ...] = ()
    without_after: tuple[JobId, ...] = ()


@attrs.frozen(kw_only=True)
class TermsChange(NewTerms, Lenient):
    """New terms, or a hold."""

    # the user's words for a hold, which may be empty; null: no hold is put
    hold: str | None = None
    # whether a hold is lifted
    release: bool = False

    @classmethod
    def to(cls, terms: NewTerms) -> Self:
        """The change to these terms."""
        return cls(**{field.name: getattr(terms, field.name) for field in attrs.fields(NewTerms)})


@attrs.frozen
class ChangeJobs(Request[tuple[ChangeResult, ...]]):
    """Change several jobs; one result for each, in order. Those that could be changed are, durably, on return."""

    METHOD = "ChangeJobs"
    job_ids: tuple[JobId, ...]
    change: TermsChange


@attrs.frozen
class CancelJobs(Request[tuple[ChangeResult, ...]]):
    """As `CancelJob`, for several jobs: those without a process end in few groups of writes."""

    METHOD = "CancelJobs"
    job_ids: tuple[JobId, ...]
    kill: bool = False


# The output of a job's commands.
#
# Source: luxid.md section 2.


@attrs.frozen
class JobOutput:
    """A piece of the output of a job's commands."""

    # decoded as UTF-8 with replacements; or one character for each byte
    text: str
    # offset of the next read; more than offset + size when older output was rotated away
    next_offset: int
    # whether no more will come: the job is final and everything has been read
    is_end: bool


class OutputStream(enum.Enum):
    """A stream to which the commands of a job print."""

    # standard output, and standard error unless the command keeps it apart
    OUTPUT = "output"
    ERROR = "error"


@attrs.frozen
class ReadJobOutput(Request[JobOutput]):
    """Read a job's output from a byte offset on; waits up to `timeout` s for new output."""

    METHOD = "ReadJobOutput"
    job_id: JobId
    offset: int = 0
    timeout: float = 0.0
    # null: standard output
    stream: OutputStream | None = None
    # whether each byte is wanted as one character (Latin-1); null: no
    as_bytes: bool | None = None
    # number of a try, from 1, of which alone the output is wanted; offsets are those of the whole stream. Null: all
    of_try: int | None = None


@attrs.frozen
class OutputTime:
    """A mark in an output: when its bytes from an offset on came."""

    offset: int
    # seconds since the epoch, at most a quarter of a second too early; null: not known
    at: float | None


_OFFSET: Final = attrgetter("offset")


@attrs.frozen
class OutputTimes:
    """When a part of an output came, to the master; each time is that of all bytes up to the next offset."""

    # by offset; the first one is not after the part's begin, unless older output was rotated away
    times: tuple[OutputTime, ...]
    # offset up to which these tell, if there were too many for one reply; null: all that was wanted is told
    until: int | None

    def at(self, offset: int) -> float | None:
        """When this byte of the part came, in seconds since the epoch; None: that is not known."""
        place = bisect.bisect_right(self.times, offset, key=_OFFSET) - 1
        return self.times[place].at if place >= 0 else None


@attrs.frozen
class ReadOutputTimes(Request[OutputTimes]):
    """Read when a job's output came."""

    METHOD = "ReadJobOutputTimes"
    job_id: JobId
    offset: int = 0
    # offset of the first byte that is not meant; null: all that there is
    end: int | None = None
    # null: standard output
    stream: OutputStream | None = None

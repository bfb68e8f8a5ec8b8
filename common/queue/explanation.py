"""Why jobs do not run: each reason is one of the classes below.

Instants are seconds since the epoch.

Source: DESIGN section 6, "Explain".
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, Self

import attrs

from common.ids import JobId
from common.locks import Lock, LockMode
from common.objects.filter import Action
from common.queue.jobs import JobState
from common.queue.reasons import ReasonTrail
from common.resources import Unit
from common.shapes import OtherKind, OwnForm, TaggedObject

# reasons before the job starts


@attrs.frozen
class WaitsForJob(TaggedObject):
    """The next opcode waits for the end of another job."""

    KIND = "dependency"
    job_id: JobId
    # state as shown to users; None: unknown
    state: JobState | None
    # instant of the named job's start, or of its wait for locks, or of its arrival; None: unknown
    since: float | None
    # final states that satisfy the dependency; empty: success or error
    wanted: tuple[JobState, ...]


@attrs.frozen
class HeldByRule(TaggedObject):
    """A filter rule applies. With PAUSE the job is not started, or stops before its next opcode."""

    KIND = "filter"
    uuid: str
    action: Action
    reason_trail: ReasonTrail


@attrs.frozen
class LimitFull(TaggedObject):
    """A limit is full."""

    KIND = "limit"
    # text of the bucket, or uuid of the rule
    name: str
    is_bucket: bool
    running_count: int
    limit: int
    members: tuple[JobId, ...]


@attrs.frozen
class BatchFull(TaggedObject):
    """As many jobs of its batch run as may at once."""

    KIND = "batch"
    # id of the batch
    batch: str
    running_count: int
    limit: int
    members: tuple[JobId, ...]


@attrs.frozen
class OnHold(TaggedObject):
    """A user holds the job; it begins when it is released."""

    KIND = "hold"
    # name of the user; "": unknown
    by: str
    since: float
    # the user's words; may be empty
    why: str


@attrs.frozen
class BeginsLater(TaggedObject):
    """The job begins at an instant that its submitter, or an operator, named."""

    KIND = "begin"
    at: float


@attrs.frozen
class TriesAgain(TaggedObject):
    """The job's command failed, and runs again after a pause."""

    KIND = "retry"
    # instant of the next try
    at: float
    # number of the next try, and of the last one that may be made
    number: int
    most: int
    # why the last one failed
    why: str


@attrs.frozen
class LacksUnits(TaggedObject):
    """Too few units of a resource are free; those of a job are taken all together, with its slot."""

    KIND = "resource"
    # `licences`, `web1:memory`
    resource: str
    wanted: int
    free: int
    # units that there are; None: nobody has set the resource
    total: int | None
    # jobs that use it, the first ones by id
    members: tuple[JobId, ...]
    # whether units are kept free for this job, so that smaller ones do not pass it for ever
    is_next: bool = False
    # how the counts are shown
    unit: Unit = Unit.COUNT


@attrs.frozen
class YieldsUnits(TaggedObject):
    """Enough units are free, but they are kept for a job that has waited for long."""

    KIND = "kept resource"
    resource: str
    job_id: JobId


@attrs.frozen
class NoFreeSlot(TaggedObject):
    """All slots for job processes are taken."""

    KIND = "slots"
    used: int
    slots: int
    running: tuple[JobId, ...]


@attrs.frozen
class SlotsReserved(TaggedObject):
    """The slots that are free are reserved for users with the role *operate*."""

    KIND = "reserved slots"
    # slots that users without the role have taken, and that they may take together
    used: int
    limit: int
    # slots in all
    slots: int


@attrs.frozen
class UserAtBound(TaggedObject):
    """As many jobs of its user run as may where others wait: jobs of others are started first."""

    KIND = "user"
    running_count: int
    limit: int


@attrs.frozen
class InLine(TaggedObject):
    """Other jobs are started first."""

    KIND = "order"
    # place in the line, from 1
    position: int
    # first jobs of those ahead, in order
    ahead: tuple[JobId, ...]


@attrs.frozen
class Holding:
    """A held lock."""

    owner: str
    # job id of the owner; None: the owner is not a job
    job_id: JobId | None
    lock: Lock
    mode: LockMode
    # instant of the grant; None: unknown, or before wconfd's memory begins
    since: float | None = None


@attrs.frozen
class LevelWeight(TaggedObject):
    """The part of the job's lock weight that comes from one level."""

    KIND = "weight"
    # name of a level, or `big lock` for the BGL
    level: str
    weight: float
    # running jobs that cause this weight; empty: the job takes the BGL itself
    job_ids: tuple[JobId, ...]
    # locks of these jobs that it may have to wait for, the first of each job
    held: tuple[Holding, ...]


@attrs.frozen
class Faded(TaggedObject):
    """The weight that counts in the order: the static one, and what is left of it at this age."""

    KIND = "aged weight"
    static: float
    aged: float
    ticks: int


@attrs.frozen
class BeingWritten(TaggedObject):
    """luxid is rewriting the job's file or starting its process, which takes a moment."""

    KIND = "moment"
    # `held` or `starting`
    phase: str


@attrs.frozen
class Obstacle(TaggedObject):
    """luxid starts no jobs at the moment."""

    KIND = "obstacle"
    what: str


@attrs.frozen
class Unreadable(TaggedObject):
    """The file of the job, or of a job it waits for, cannot be read at the moment; luxid tries again."""

    KIND = "unreadable"
    job_id: JobId
    why: str


# reasons of a job with a process


@attrs.frozen
class WaitsForLock(TaggedObject):
    """The job's process has requested a lock that other owners block."""

    KIND = "lock"
    lock: Lock
    mode: LockMode
    # None: since before wconfd's memory begins
    waiting_since: float | None
    # at least one; each holds the lock itself, its group, or a member of it
    holders: tuple[Holding, ...]
    # start of wconfd's memory; older waits and holds have an unknown beginning
    counting_since: float


@attrs.frozen
class LetsPass(TaggedObject):
    """Other owners wait for the same locks, were passed too often, and go first."""

    KIND = "turn"
    owners: tuple[str, ...]
    job_ids: tuple[JobId, ...]
    # start of the job's own wait
    waiting_since: float | None
    counting_since: float


@attrs.frozen
class LockWait:
    """One wait in the chain: an owner and a lock."""

    owner: str
    job_id: JobId | None
    lock: Lock
    mode: LockMode
    waiting_since: float | None
    holders: tuple[Holding, ...]


@attrs.frozen
class LockChain(TaggedObject):
    """The owners that block the job wait for locks, too."""

    KIND = "lock chain"
    # waits of the blocking owners, nearest first; without the job's own
    waits: tuple[LockWait, ...]
    # owners that block all of them, and wait for no lock themselves
    roots: tuple[str, ...]
    root_job_ids: tuple[JobId, ...]
    # rings of owners: each waits for the next, and the last for the first
    rings: tuple[tuple[str, ...], ...]
    counting_since: float


@attrs.frozen
class HeldByOrphan(TaggedObject):
    """A job without a process blocks this one, as its command may still run on a node."""

    KIND = "ghost"
    owner: str
    # None: the owner is not a job
    job_id: JobId | None
    # names of the nodes
    nodes: tuple[str, ...]
    # death of its process
    since: float
    # when its locks become free without any word; None: never
    ends_at: float | None


@attrs.frozen
class Ending(TaggedObject):
    """The job is being killed, and some of its processes still live."""

    KIND = "ending"
    # processes that it started; its own ones if none of those is left
    pids: tuple[int, ...]


@attrs.frozen
class Outlived(TaggedObject):
    """The job's process has died, and its command lives on under its locks."""

    KIND = "outlived"
    # living processes of the command
    pids: tuple[int, ...]


@attrs.frozen
class SilentNode(TaggedObject):
    """The job's process waits for a node that does not answer, and asks it again."""

    KIND = "silent node"
    # name of the node
    node: str
    # since when, and until when it is waited for, seconds since 1970; None: without end
    since: float
    until: float | None
    # whether the command may have begun there
    may_run: bool
    # what the last call came to
    why: str


@attrs.frozen
class TakenUp(TaggedObject):
    """The job's process died, and another one is being started, which takes its command on a node up."""

    KIND = "taken up"
    # name of the node
    node: str
    # processes that died in a row, each after a short life; the more, the longer is the pause before the next
    deaths: int


@attrs.frozen
class NotKnown(TaggedObject):
    """Some fact could not be found out."""

    KIND = "unknown"
    what: str
    why: str


Reason = (
    WaitsForJob
    | HeldByRule
    | LimitFull
    | BatchFull
    | OnHold
    | BeginsLater
    | TriesAgain
    | LacksUnits
    | YieldsUnits
    | NoFreeSlot
    | SlotsReserved
    | UserAtBound
    | InLine
    | LevelWeight
    | Faded
    | BeingWritten
    | Obstacle
    | Unreadable
    | WaitsForLock
    | LetsPass
    | LockChain
    | HeldByOrphan
    | Ending
    | Outlived
    | TakenUp
    | SilentNode
    | NotKnown
    | OtherKind
)


# What a job waited for, and when: the history of its waits.
#
# Theory. A *span* is a period in which one cause held a job. If several causes hold it at once, the first one counts,
# in the order of selection: that it is to begin later, other jobs, a filter rule, a full limit, units, its turn. So the
# spans of a job do not overlap, and their sum is the time that it waited. A wait for locks is written without an end
# when it begins to last, and again with the same beginning when it is over. A reader takes the later line, and closes a
# span that stayed open at the point where the job went on. Spans shorter than `SHORTEST_S` are neither kept nor shown.
#
# Source: DESIGN section 6, "Explain".


SHORTEST_S: Final = 0.1
# maximum of jobs or locks that one span names; of the rest only the count is kept
NAMED: Final = 10
# seconds; a clock set back by less does not make a span look like another job's
_SLACK_S: Final = 60.0


class WaitKind(enum.Enum):
    """The cause that held a job; the value is its name on the wire."""

    # a user holds it
    HOLD = "hold"
    # it is to begin at an instant that its submitter named
    BEGIN = "begin"
    # the pause before the next try of its command
    RETRY = "retry"
    DEPENDENCY = "dependency"
    FILTER = "filter"
    LIMIT = "limit"
    # as many jobs of its batch run as may at once
    BATCH = "batch"
    # too few units of a resource were free, or they were kept for another job
    RESOURCE = "resource"
    # no free slot, or other jobs are started first
    TURN = "turn"
    # luxid starts no jobs at the moment
    OBSTACLE = "obstacle"
    # its process is being started
    START = "start"
    LOCKS = "locks"
    # the job was queued before luxid was restarted
    UNKNOWN = "unknown"


# causes of spans that a new luxid lets begin before its own start
_REACHING_BACK: Final = (WaitKind.UNKNOWN, WaitKind.HOLD, WaitKind.BEGIN, WaitKind.RETRY)


@attrs.frozen
class Cause:
    """A cause that holds a job, and the jobs and names involved."""

    kind: WaitKind
    # ids of the jobs that it depends on, or that held its locks; the first `NAMED`
    job_ids: tuple[int, ...] = ()
    # locks; the UUID of a rule; the name of a limit: the text of a bucket, or the UUID of its rule; the id of a batch;
    # the name of a resource; the user who holds the job
    names: tuple[str, ...] = ()
    # owners of locks that are not jobs
    owners: tuple[str, ...] = ()
    # count of job ids left out
    more: int = 0
    # number of jobs that a limit, or a batch, lets run at once; number of units that the job wants
    limit: int | None = None
    # whether a limit is a bucket's; False: it is a rule's
    is_bucket: bool = False
    # first reason of a rule; the words of a hold; why the last try failed
    reason: str = ""

    def to_wire(self) -> dict[str, object]:
        """The wire form without empty values."""
        rest = attrs.asdict(self, filter=lambda field, value: field.name != "kind" and value not in ((), "", 0, None))
        return {"kind": self.kind.value, **rest}


@attrs.frozen
class Span(OwnForm):
    """The period, in seconds since the epoch, in which a cause held a job."""

    cause: Cause
    since: float
    # end; None: it still lasts
    until: float | None

    @property
    def is_short(self) -> bool:
        return self.until is not None and self.until - self.since < SHORTEST_S

    def to_wire(self) -> dict[str, object]:
        return {**self.cause.to_wire(), "since": self.since, "until": self.until}

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Raises: KeyError, TypeError, ValueError: the value is not a span."""
        if not isinstance(value, Mapping):
            raise TypeError(f"expected a span, got {value!r:.60}")
        cause = Cause(
            WaitKind(value["kind"]),
            tuple(map(int, value.get("job_ids", ()))),
            tuple(map(str, value.get("names", ()))),
            tuple(map(str, value.get("owners", ()))),
            int(value.get("more", 0)),
            value.get("limit"),
            bool(value.get("is_bucket", False)),
            str(value.get("reason", "")),
        )
        until = value["until"]
        return cls(cause, float(value["since"]), None if until is None else float(until))


def assemble(
    written: Sequence[Span], current: Sequence[Span], received_at: float, ended_at: float | None
) -> tuple[Span, ...]:
    """Return the history of a job from the written spans, in the order of the file, and luxid's spans in memory.

    Args:
        received_at: seconds; spans before it belong to an earlier job with the same id, from before the queue was
            set up anew, and are left out.
        ended_at: None: the job has not ended, and its last span may be open.
    Returns: spans ordered by their beginning; only the last one may lack an end.
    """
    found: dict[tuple[WaitKind, float], Span] = {}
    known_until = 0.0
    for span in (*written, *current):
        if span.since < received_at - _SLACK_S:
            continue
        if span.cause.kind in _REACHING_BACK:
            # each luxid only knows that it was not running before its start, and since when a job was to begin later
            span = attrs.evolve(span, since=max(span.since, known_until))
        found[span.cause.kind, span.since] = span
        known_until = max(known_until, span.until or 0.0)
    spans = sorted(found.values(), key=lambda span: span.since)
    ends = [*(span.since for span in spans[1:]), ended_at]
    closed = (
        attrs.evolve(span, until=end) if span.until is None else span for span, end in zip(spans, ends, strict=False)
    )
    return tuple(span for span in closed if not span.is_short)

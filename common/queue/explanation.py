"""Why jobs do not run: each reason is one of the classes below.

Instants are seconds since the epoch.

Source: DESIGN section 6, "Explain".
"""

import attrs

from common.ids import JobId
from common.locks import Lock, LockMode
from common.queue.filteractions import Action
from common.queue.jobs import JobState
from common.queue.reasons import ReasonTrail
from common.shapes import OtherKind, Tagged

# before it starts


@attrs.frozen
class WaitsForJob(Tagged):
    """Its next opcode waits for the end of another job."""

    KIND = "dependency"
    job_id: JobId
    # state as it is shown; None: unknown
    state: JobState | None
    # start of the job, or of its wait for locks, or else when it was received; None: unknown
    since: float | None
    # final states that will do; empty: success or error
    wanted: tuple[JobState, ...]


@attrs.frozen
class HeldByRule(Tagged):
    """A filter rule applies. With PAUSE it is not started, or stops before its next opcode."""

    KIND = "filter"
    uuid: str
    action: Action
    reason_trail: ReasonTrail


@attrs.frozen
class LimitFull(Tagged):
    """As many jobs run as a limit allows."""

    KIND = "limit"
    # text of the bucket, or uuid of the rule
    name: str
    is_bucket: bool
    running_count: int
    limit: int
    members: tuple[JobId, ...]


@attrs.frozen
class NoFreeSlot(Tagged):
    """As many jobs have a process as may."""

    KIND = "slots"
    used: int
    slots: int
    running: tuple[JobId, ...]


@attrs.frozen
class InLine(Tagged):
    """Others are started first."""

    KIND = "order"
    # place in the line; 1: it is next
    position: int
    # first of those that are started before, in order
    ahead: tuple[JobId, ...]


@attrs.frozen
class Holding:
    """A lock that somebody holds."""

    owner: str
    # None: the owner is no job
    job_id: JobId | None
    lock: Lock
    mode: LockMode
    # None: unknown, or since before wconfd counts
    since: float | None = None


@attrs.frozen
class LevelWeight(Tagged):
    """What makes it heavy on one level of locks."""

    KIND = "weight"
    # name of a level, or `big lock` for the BGL
    level: str
    weight: float
    # running jobs beside which it weighs that; empty: it takes the BGL itself
    job_ids: tuple[JobId, ...]
    # locks of theirs for which it could have to wait, the first of each job
    held: tuple[Holding, ...]


@attrs.frozen
class Faded(Tagged):
    """Its weight as it counts in the order: the static one, and what age has left of it."""

    KIND = "aged weight"
    static: float
    aged: float
    ticks: int


@attrs.frozen
class BeingWritten(Tagged):
    """luxid is rewriting its file, or making its process; that takes a moment."""

    KIND = "moment"
    # `held` or `starting`
    phase: str


@attrs.frozen
class Obstacle(Tagged):
    """No job is started at all for the moment."""

    KIND = "obstacle"
    what: str


@attrs.frozen
class Unreadable(Tagged):
    """Its file, or that of a job it waits for, cannot be read for the moment; luxid tries again."""

    KIND = "unreadable"
    job_id: JobId
    why: str


# when it has a process


@attrs.frozen
class WaitsForLock(Tagged):
    """Its process asked for a lock that others keep it out of."""

    KIND = "lock"
    lock: Lock
    mode: LockMode
    # None: since before wconfd counts
    waiting_since: float | None
    # at least one; each holds the lock itself, its group, or a member of it
    holders: tuple[Holding, ...]
    # start of wconfd's memory; it does not know the beginning of what is older
    counting_since: float


@attrs.frozen
class LetsPass(Tagged):
    """Others wait for the same locks, were passed too often already, and go first."""

    KIND = "turn"
    owners: tuple[str, ...]
    job_ids: tuple[JobId, ...]
    # beginning of the job's own wait
    waiting_since: float | None
    counting_since: float


@attrs.frozen
class LockWait:
    """A wait of the chain: one owner's for one lock."""

    owner: str
    job_id: JobId | None
    lock: Lock
    mode: LockMode
    waiting_since: float | None
    holders: tuple[Holding, ...]


@attrs.frozen
class LockChain(Tagged):
    """The owners in its way wait for locks, too."""

    KIND = "lock chain"
    # waits of those in the way, nearest first; not the job's own
    waits: tuple[LockWait, ...]
    # owners that hold up all of them, and wait for no lock
    roots: tuple[str, ...]
    root_job_ids: tuple[JobId, ...]
    # rings of owners: each waits for the next, and the last for the first
    rings: tuple[tuple[str, ...], ...]
    counting_since: float


@attrs.frozen
class Ending(Tagged):
    """It is being killed, and something of it still lives."""

    KIND = "ending"
    # processes that it started; its own ones if none of those is left
    pids: tuple[int, ...]


@attrs.frozen
class NotKnown(Tagged):
    """Something could not be found out."""

    KIND = "unknown"
    what: str
    why: str


Reason = (
    WaitsForJob
    | HeldByRule
    | LimitFull
    | NoFreeSlot
    | InLine
    | LevelWeight
    | Faded
    | BeingWritten
    | Obstacle
    | Unreadable
    | WaitsForLock
    | LetsPass
    | LockChain
    | Ending
    | NotKnown
    | OtherKind
)

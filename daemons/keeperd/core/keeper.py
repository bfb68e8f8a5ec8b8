"""All that keeperd knows and intends: a value, which each event replaces.

Source: lease.md 7 and 8.
"""

import enum
from typing import Final

import attrs

from common.lease.records import Fence, LastMaster, MasterRecord, OperatorRequest
from common.lease.times import LeaseTimes
from daemons.keeperd.core.events import Act, Remember, RemoveWanted
from daemons.keeperd.core.states import HOLDING, NodeMemory, State, View, check_step

# seconds after which the memory is stored although only the revision has changed
REMEMBER_S: Final = 10.0


class EndCause(enum.Enum):
    """Why a mastership ends; for the log and the history."""

    NONE = ""
    START = "keeperd was started"
    DEADLINE = "not renewed in time"
    LOST = "lease or key gone"
    REFUSED = "etcd refused a write"
    HIGHER = "a node knows a higher epoch"
    DOUBT = "etcd is older than remembered"
    CORRUPT = "etcd has corrupt data"
    SWITCHOVER = "switch-over"
    ENDING = "keeperd is to end"
    FAILING = "the daemons fail here"


@attrs.frozen
class Me:
    """What does not change while keeperd runs."""

    node: str
    boot_id: str
    # seconds; of own settings; the lease of a mastership has its own
    ttl_s: float
    # seconds; limit of one request; 0: as fits the lease
    request_s: float = 0.0
    # higher goes first; 0: never by itself
    priority: int = 1
    # seconds; time-out; 0: there is none
    watchdog_s: float = 0.0


@attrs.frozen
class OwnMastership:
    """A mastership of this node, from the campaign until all that ran under it has ended."""

    fence: Fence
    record: MasterRecord
    times: LeaseTimes
    # when the last successful keepalive was sent
    renewed_at: float
    # whether a daemon of the master may have been started
    is_started: bool = False
    # whether all of them serve
    is_ready: bool = False
    # when daemons failed lately
    failed_at: tuple[float, ...] = ()
    # when to start them again; None: not asked
    restart_at: float | None = None
    # request that was there when it was won
    request: OperatorRequest | None = None
    # the mastership before, as it was when this one was won
    before: LastMaster | None = None

    @property
    def epoch(self) -> int:
        return self.fence.epoch

    @property
    def shaky_at(self) -> float:
        return self.renewed_at + self.times.shaky_s

    @property
    def stop_at(self) -> float:
        return self.renewed_at + self.times.stop_s

    @property
    def deadline(self) -> float:
        return self.renewed_at + self.times.deadline_s


@attrs.frozen
class Heard:
    """A request of an operator, as the master has read it first."""

    request: OperatorRequest
    at: float


@attrs.frozen
class Keeper:
    me: Me
    memory: NodeMemory
    state: State = State.OFF
    # why the last mastership ends, or has ended
    cause: EndCause = EndCause.NONE
    # the last linear read that was not doubtful; None: etcd does not reply
    view: View | None = None
    # the last read that showed an etcd older than remembered, and the number of such reads in a row
    doubted: View | None = None
    suspicions: int = 0
    # why the shell says that this node may not be the master
    reasons: tuple[str, ...] = ()
    # None: this node is not the master
    held: OwnMastership | None = None
    # epoch of the last start of the daemons; 0: none was since keeperd was started
    started_epoch: int = 0
    # since when no node is the master; None: somebody is, or it is not known
    vacant_at: float | None = None
    # between 0 and 1, drawn for this vacancy
    jitter: float = 0.0
    # no campaign before this, and why
    not_before: float = 0.0
    pause_reason: str = ""
    # when it may campaign again after it made way for another node; 0: it did not
    made_way_until: float = 0.0
    # highest epoch that a node has named; 0: none
    nodes_epoch: int = 0
    # when a mastership was last given up since a node knew a higher epoch; None: never
    gave_up_at: float | None = None
    # whether `Drain` was asked, and its request is not fulfilled yet
    is_draining: bool = False
    # request that is there, in whatever state; None: there is none, or this node is not the master
    heard: Heard | None = None
    # request that the mastership makes way for
    leaving: OperatorRequest | None = None
    # what was decided on the last request
    verdict: RemoveWanted | None = None
    # when SIGKILL follows, again and again; None: nothing is being ended
    kill_at: float | None = None
    # keeperd is to end
    is_ending: bool = False
    # when `memory` was last stored
    remembered_at: float = 0.0
    # when the last event was handled
    now: float = 0.0

    @property
    def in_maintenance(self) -> bool:
        return self.memory.maintenance is not None and self.memory.maintenance.on

    def may_serve(self, now: float) -> bool:
        """Whether a load balancer may send clients here; ends before the daemons are ended."""
        return self.state in (State.MASTER, State.SHAKY) and self.held is not None and now < self.held.stop_at

    def valid_s(self, now: float) -> float | None:
        """Return for how many seconds this node may act without a renewal; None: it may not act."""
        if self.held is None or self.state not in HOLDING:
            return None
        return max(0.0, self.held.deadline - now)


# a keeper, and the acts that led there, in order
Step = tuple[Keeper, tuple[Act, ...]]


def moved(keeper: Keeper, state: State) -> Keeper:
    """Return the keeper in another state. Raises: InternalError: the table has no such step."""
    if state is not keeper.state:
        check_step(keeper.state, state)
    return attrs.evolve(keeper, state=state)


def remembering(keeper: Keeper, memory: NodeMemory, now: float) -> Step:
    """Return the keeper with another memory, which is stored unless only the revision has changed a moment ago."""
    is_news = attrs.evolve(memory, revision=keeper.memory.revision) != keeper.memory
    if is_news or (memory != keeper.memory and now >= keeper.remembered_at + REMEMBER_S):
        return attrs.evolve(keeper, memory=memory, remembered_at=now), (Remember(memory),)
    return attrs.evolve(keeper, memory=memory), ()

"""All that keeperd knows and intends: a value, which each event replaces.

Source: lease.md 7 and 8.
"""

import enum

import attrs

from common.lease.fence import Fence
from common.lease.records import Maintenance, MasterRecord, Wanted
from common.lease.times import Times
from daemons.keeperd.core.standings import HOLDING, check_step
from daemons.keeperd.core.words import Act, Memory, State, View


class Cause(enum.Enum):
    """Why a mastership ends, or a state was entered; for the log and the history."""

    NONE = ""
    START = "started"
    WON = "won"
    DEADLINE = "not renewed in time"
    LOST = "lease or key gone"
    REFUSED = "etcd refused a write"
    HIGHER = "a node knows a higher epoch"
    DOUBT = "etcd is older than remembered"
    CORRUPT = "etcd has corrupt data"
    SWITCHOVER = "switch-over"
    ENDING = "keeperd is to end"
    FAILING = "daemons fail"


@attrs.frozen
class Me:
    """What does not change while keeperd runs."""

    node: str
    boot_id: str
    # of own settings; the lease of a mastership has its own
    ttl_s: float
    # 0: as fits the lease
    request_s: float = 0.0
    # higher goes first; 0: never by itself
    priority: int = 1
    # time-out; 0: there is none
    watchdog_s: float = 0.0


@attrs.frozen
class Held:
    """A mastership of this node, from the campaign to the end of all that ran under it."""

    fence: Fence
    record: MasterRecord
    times: Times
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
    # wish that the mastership was won by, or with; `nonce`
    wish: Wanted | None = None

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
class Keeper:
    me: Me
    memory: Memory
    state: State = State.OFF
    cause: Cause = Cause.NONE
    # the last linear read that was not doubtful; None: etcd does not reply
    view: View | None = None
    # number of reads in a row that showed an etcd older than remembered
    suspicions: int = 0
    # why the shell says that this node may not be the master
    reasons: tuple[str, ...] = ()
    # None: this node is not the master
    held: Held | None = None
    # since when nobody is the master; None: somebody is, or it is not known
    vacant_at: float | None = None
    jitter: float = 0.0
    # no campaign before this, and why
    not_before: float = 0.0
    pause_reason: str = ""
    # when it made way for another node and may campaign again itself; 0: it did not
    made_way_until: float = 0.0
    # highest epoch that a node has named; 0: none
    nodes_epoch: int = 0
    # when the mastership was last given up since a node knew a higher epoch; None: never
    gave_up_at: float | None = None
    # wish that is being fulfilled by leaving
    leaving: Wanted | None = None
    # when SIGKILL follows; None: not asked, or already sent
    kill_at: float | None = None
    # keeperd is to end
    is_ending: bool = False
    # when `memory` was last stored
    remembered_at: float = 0.0
    # when the clock was read last
    now: float = 0.0

    @property
    def epoch(self) -> int:
        """The highest epoch that this node has seen in etcd."""
        return max(self.memory.epoch, self.held.epoch if self.held else 0)

    @property
    def maintenance(self) -> Maintenance | None:
        """The newest that is known."""
        return self.memory.maintenance

    @property
    def in_maintenance(self) -> bool:
        return self.maintenance is not None and self.maintenance.on

    @property
    def serves(self) -> bool:
        """Whether the daemons of the master serve here; ask `may_serve` with the time."""
        return self.state in (State.MASTER, State.SHAKY)

    def may_serve(self, now: float) -> bool:
        """Whether a load balancer may send clients here: true in time before the daemons are ended."""
        return self.serves and self.held is not None and now < self.held.stop_at

    def valid_s(self, now: float) -> float | None:
        """Return for how many seconds this node may act without a renewal; None: it may not act."""
        if self.held is None or self.state not in HOLDING:
            return None
        return max(0.0, self.held.deadline - now)


# a keeper, and the acts that led there, in order
Step = tuple[Keeper, tuple[Act, ...]]


def moved(keeper: Keeper, state: State, cause: Cause = Cause.NONE) -> Keeper:
    """Return the keeper in another state. Raises: InternalError: the table has no such step."""
    if state is keeper.state:
        return keeper
    check_step(keeper.state, state)
    return attrs.evolve(keeper, state=state, cause=cause)

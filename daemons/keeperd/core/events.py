"""What keeperd is told: the events of its machine.

Theory. `machine.step` is given one event, and the time of it, and returns the next state of keeperd and the acts that
its shell carries out, in order (`acts.py`). All times are seconds by `common.lease.deadline.boottime`.

What is told about a mastership, or asked for one, names its epoch: the shell may report late what belongs to an earlier
one, and the machine drops that.

Source: DESIGN section 14; lease.md 7 and 8.
"""

import attrs

from common.lease.fence import Fence
from common.lease.records import MasterRecord
from daemons.keeperd.core.states import View


@attrs.frozen
class Looked:
    """A linear read has succeeded."""

    view: View
    # between 0 and 1, drawn anew each time; spreads the campaigns of equal candidates
    jitter: float = 0.0


@attrs.frozen
class EtcdSilent:
    """No endpoint has replied to a read within its time, or etcd serves nothing."""

    # etcd has found corrupt data
    is_corrupt: bool = False


@attrs.frozen
class CampaignWon:
    fence: Fence
    record: MasterRecord
    # when the lease was asked for: before that request was sent
    sent_at: float


@attrs.frozen
class CampaignLost:
    """Somebody else was quicker, or etcd takes no writes."""

    # why etcd refused; empty: somebody else has it
    reason: str = ""


@attrs.frozen
class Renewed:
    """The lease was renewed by a keepalive that was sent at this time."""

    epoch: int
    sent_at: float


@attrs.frozen
class LeaseLost:
    """etcd says that the lease is gone."""

    epoch: int


@attrs.frozen
class NodesTold:
    """Each node was told of the epoch, or has not replied within a short time; again when one replies later."""

    epoch: int
    # the highest epoch that a node knows beyond ours; 0: none
    higher: int = 0
    silent: tuple[str, ...] = ()


@attrs.frozen
class OwnNodeSilent:
    """This node's own daemon, which is told of an epoch first, has not replied; told after each attempt."""

    epoch: int
    # seconds since the first attempt
    silent_s: float


@attrs.frozen
class DaemonsReady:
    """All daemons of the master serve."""

    epoch: int


@attrs.frozen
class DaemonsFailed:
    """A daemon of the master has not started, or has ended, unasked; each time. Not after `FenceRefused`."""

    epoch: int
    reason: str


@attrs.frozen
class FenceRefused:
    """A daemon of the master has ended because etcd refused its write."""

    epoch: int


@attrs.frozen
class DaemonsEnded:
    """No daemon of the master and no local job is left here; after `StopDaemons` or `KillDaemons`.

    A process that cannot be ended, as in an uninterruptible wait, is left: then this is not told until it has gone.
    """

    # of the last `StartDaemons`; 0: there was none since keeperd was started
    epoch: int


@attrs.frozen
class Drained:
    """All writes are in etcd, nothing runs here, and no new work is taken."""

    epoch: int


@attrs.frozen
class FitnessChanged:
    """Whether this node may be the master, apart from what etcd says; empty: it may.

    Such as: no room on the disk, the watchdog cannot be opened, a release of etcd that loses data.
    """

    reasons: tuple[str, ...]


@attrs.frozen
class RestoreAccepted:
    """An operator takes etcd as it is."""


@attrs.frozen
class StopAsked:
    """keeperd is to end."""


@attrs.frozen
class Due:
    """The time of `machine.next_due` has come."""


Event = (
    Looked
    | EtcdSilent
    | CampaignWon
    | CampaignLost
    | Renewed
    | LeaseLost
    | NodesTold
    | OwnNodeSilent
    | DaemonsReady
    | DaemonsFailed
    | FenceRefused
    | DaemonsEnded
    | Drained
    | FitnessChanged
    | RestoreAccepted
    | StopAsked
    | Due
)

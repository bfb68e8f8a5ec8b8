"""What keeperd is told: the events of its machine.

Theory. `machine.step` is given one event, and the time of it, and returns the next state of keeperd and the acts that
its shell carries out, in order (see below). All times are seconds by `common.lease.deadline.boottime`.

What is told about a mastership, or asked for one, names its epoch: the shell may report late what belongs to an earlier
one, and the machine drops that.

Source: DESIGN section 14; lease.md 7 and 8.
"""

from collections.abc import Mapping

import attrs

from common.lease.records import AcceptedRestore, Fence, LastMaster, MasterRecord, OperatorRequest
from common.lease.times import LeaseTimes
from daemons.keeperd.core.states import NodeMemory, View


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
class LeaseRenewed:
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
    | LeaseRenewed
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


# What keeperd is to do: the acts that its machine asks for.
#
# Theory. The shell carries out each act beside the others, reports what became of it by an event, and may
# be told to stop it by a later act.
#
# Source: DESIGN section 14; lease.md 7 and 8.


@attrs.frozen
class Look:
    """Read all of `View` linearly; also done by itself when a watch reports a change, and now and then.

    One at a time: what is told by `Looked` is in the order of the reads.
    """

    # at another endpoint than the last one
    elsewhere: bool = False


@attrs.frozen
class Campaign:
    """Grant a lease and try to become the master, with an epoch higher than this and than all that nodes know.

    One transaction, if there is no key of the master and the key `epoch` still has this modification revision: the
    decision to campaign was made by that view, and a mastership since may have marked this node stale. An unknown
    outcome is asked for by the nonce (`campaigning.is_won`) until it is known; reported are only `CampaignWon` and
    `CampaignLost`. The lease of a lost campaign is revoked.
    """

    above: int
    # 0: there is no such key
    epoch_revision: int


@attrs.frozen
class Renew:
    """Renew the lease of this mastership from now on, until `Release` or `DropLease`."""

    epoch: int
    times: LeaseTimes


@attrs.frozen
class SetDeadline:
    """Daemons may act as the master until then, and the watchdog bites then at the latest. `until` 0: not at all.

    The first one of a mastership starts the watchdog. It is fed only while its time-out ends before `until`, and is
    closed by `Release`.
    """

    until: float


@attrs.frozen
class TellNodes:
    """Let all nodes know the epoch; again and again those that do not reply."""

    fence: Fence


@attrs.frozen
class FenceOld:
    """Let the fence agents fence this node, which may still run."""

    last: LastMaster


@attrs.frozen
class StartDaemons:
    """Write the grant, bring up the address, start the daemons of the master; again after one has failed."""

    fence: Fence


@attrs.frozen
class Drain:
    """Let luxid take and start nothing more, and wait for the jobs here, or kill them; mark the key for this node."""

    # empty: for any
    node: str
    kill: bool


@attrs.frozen
class DrainNoMore:
    """The opposite of `Drain`: the operator has taken back the request."""


@attrs.frozen
class StopDaemons:
    """Remove the grant and the address; end the daemons of the master by SIGTERM, and local jobs.

    When none is left, `DaemonsEnded` is reported, also if none ran.
    """


@attrs.frozen
class KillDaemons:
    """SIGKILL for all that is left of them and of their jobs; may come again for what does not end."""


@attrs.frozen
class Release:
    """Nothing that ran under the mastership lives: close the watchdog, remove the key by the fence, revoke the lease.

    In vain if it is no longer ours. The removal also puts `clean` into `last-master`, in the same transaction.
    """

    clean: bool


@attrs.frozen
class DropLease:
    """Renew no more; the lease runs out by itself."""


@attrs.frozen
class Remember:
    """Store durably before the next act. If it cannot be stored: `FitnessChanged`, and the next acts all the same."""

    memory: NodeMemory


@attrs.frozen
class RemoveWanted:
    """Remove the operator's request, which is fulfilled or refused."""

    wanted: OperatorRequest
    refusal: str = ""


@attrs.frozen
class AcceptRestore:
    """Remove the key of the master, set the epoch, note by whom; if neither epoch nor acceptance has changed meanwhile.

    The files of this node count from now on: a mark of it as stale, which was restored, goes in the same transaction.
    Tried until it is known; then `Looked` shows what was accepted.
    """

    accepted: AcceptedRestore


@attrs.frozen
class Tell:
    """A line of the log. Args: event: its name; fields: its values."""

    event: str
    fields: Mapping[str, object] = attrs.field(factory=dict)
    is_error: bool = False


@attrs.frozen
class MayEnd:
    """keeperd may end, when it has carried out the acts before this one, or cannot."""


Act = (
    Look
    | Campaign
    | Renew
    | SetDeadline
    | TellNodes
    | FenceOld
    | StartDaemons
    | Drain
    | DrainNoMore
    | StopDaemons
    | KillDaemons
    | Release
    | DropLease
    | Remember
    | RemoveWanted
    | AcceptRestore
    | Tell
    | MayEnd
)

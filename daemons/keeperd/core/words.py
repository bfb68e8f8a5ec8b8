"""What keeperd is told, and what it is to do: the events and acts of its machine.

Theory. `machine.step` is given one event, and the time of it, and returns the next state of keeperd and the acts that
its shell carries out, in order. All times are seconds by `common.lease.deadline.boottime`. The shell carries out each
act beside the others, reports what became of it by an event, and may be told to stop it by a later act.

Source: DESIGN section 14; lease.md 7 and 8.
"""

import enum
from collections.abc import Mapping

import attrs

from common.lease.fence import Fence
from common.lease.records import LastMaster, Maintenance, MasterRecord, Wanted


class State(enum.Enum):
    """As lease.md 7 has them; users see these words."""

    OFF = "off"
    WAIT = "wait"
    FOLLOW = "follow"
    BARRED = "barred"
    CAMPAIGN = "campaign"
    TAKING = "taking"
    MASTER = "master"
    SHAKY = "shaky"
    LEAVING = "leaving"
    STOPPING = "stopping"
    LOST = "lost"
    DOUBT = "doubt"


@attrs.frozen
class View:
    """What a linear read of etcd has shown."""

    cluster_id: str
    revision: int
    # None: nobody is the master
    master: MasterRecord | None
    # create revision of the key `master`; 0: there is none
    master_revision: int
    # number in the key `epoch`, and its modification revision; 0: there is none
    epoch: int
    epoch_revision: int
    last_master: LastMaster | None = None
    maintenance: Maintenance | None = None
    wanted: Wanted | None = None
    # whether this node is marked stale
    is_stale: bool = False
    # the epoch of the last master that has compared this node's files; 0: none has
    synced: int = 0
    # fitness of the other candidates, by name: higher goes first, 0 never
    priorities: Mapping[str, int] = attrs.field(factory=dict)
    # another living keeperd has the name of this node
    has_twin: bool = False


@attrs.frozen
class Memory:
    """What this node's disk remembers of etcd and of its own masterships."""

    cluster_id: str = ""
    revision: int = 0
    # highest epoch seen
    epoch: int = 0
    # epoch of this node's last mastership; 0: it was never the master
    own_epoch: int = 0
    maintenance: Maintenance | None = None


# events


@attrs.frozen
class Looked:
    """A linear read has succeeded."""

    view: View


@attrs.frozen
class EtcdSilent:
    """No endpoint has replied to a read within its time."""


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

    sent_at: float


@attrs.frozen
class LeaseLost:
    """etcd says that the lease is gone."""


@attrs.frozen
class NodesTold:
    """Each node was told of the epoch, or does not reply."""

    # the highest epoch that a node knows beyond ours; 0: none
    higher: int = 0
    silent: tuple[str, ...] = ()


@attrs.frozen
class DaemonsReady:
    pass


@attrs.frozen
class DaemonsFailed:
    """The daemons of the master do not start, or do not stay up, here."""

    reason: str


@attrs.frozen
class FenceRefused:
    """A daemon of the master has ended because etcd refused its write."""


@attrs.frozen
class DaemonsEnded:
    """No daemon of the master and no job process is left here."""


@attrs.frozen
class Drained:
    """All writes are in etcd, nothing runs here, and no new work is taken."""


@attrs.frozen
class FitnessChanged:
    """Whether this node may be the master, apart from what etcd says; empty: it may."""

    reasons: tuple[str, ...]


@attrs.frozen
class RestoreAccepted:
    """An operator takes etcd as it is."""


@attrs.frozen
class StopAsked:
    """keeperd is to end."""


@attrs.frozen
class Due:
    """The time of `Keeper.next_due` has come."""


Event = (
    Looked
    | EtcdSilent
    | CampaignWon
    | CampaignLost
    | Renewed
    | LeaseLost
    | NodesTold
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


# acts


@attrs.frozen
class Look:
    """Read all of `View` linearly; also done by itself when a watch reports a change, and now and then."""


@attrs.frozen
class Campaign:
    """Grant a lease and try to become the master, with an epoch higher than this and than all that nodes know.

    An unknown outcome is asked for by the nonce until it is known; reported are only `CampaignWon` and `CampaignLost`.
    """

    above: int


@attrs.frozen
class Renew:
    """Renew the lease from now on."""


@attrs.frozen
class SetDeadline:
    """Daemons may act as the master until then, and the watchdog bites then at the latest. `until` 0: not at all."""

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
    """Write the grant, bring up the address, start the daemons of the master."""

    fence: Fence


@attrs.frozen
class Drain:
    """Let luxid take and start nothing more, and wait for the jobs here, or kill them; mark the key for this node."""

    node: str
    kill: bool


@attrs.frozen
class StopDaemons:
    """Remove the grant and the address; end the daemons of the master by SIGTERM, and local jobs."""


@attrs.frozen
class KillDaemons:
    """SIGKILL for all that is left of them and of their jobs."""


@attrs.frozen
class Release:
    """Give the lease back: nothing that ran under it lives. Args: clean: whether nothing was left undone."""

    clean: bool


@attrs.frozen
class DropLease:
    """Renew no more; the lease runs out."""


@attrs.frozen
class Remember:
    """Store durably before the next act."""

    memory: Memory


@attrs.frozen
class RemoveWanted:
    """Remove the operator's wish, which is fulfilled or refused."""

    wanted: Wanted
    refusal: str = ""


@attrs.frozen
class AcceptRestore:
    """Remove the key of the master, raise the epoch above this, remove the marks that are newer than etcd."""

    above: int


@attrs.frozen
class Tell:
    """A line of the log. Args: event: its name; fields: its values."""

    event: str
    fields: Mapping[str, object] = attrs.field(factory=dict)
    is_error: bool = False


@attrs.frozen
class End:
    """keeperd may end now."""


Act = (
    Look
    | Campaign
    | Renew
    | SetDeadline
    | TellNodes
    | FenceOld
    | StartDaemons
    | Drain
    | StopDaemons
    | KillDaemons
    | Release
    | DropLease
    | Remember
    | RemoveWanted
    | AcceptRestore
    | Tell
    | End
)

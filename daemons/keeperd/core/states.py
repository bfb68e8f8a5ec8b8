"""The states of keeperd's machine, what etcd has shown to it, and what this node remembers.

Source: DESIGN section 14; lease.md 7 and 8.
"""

import enum
from collections.abc import Mapping

import attrs

from common.lease.records import FORMAT, Accepted, LastMaster, Maintenance, MasterRecord, MemberRecord, Wanted


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
    """What a linear read of etcd has shown; all of one revision."""

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
    # the other candidates that live, by name
    others: Mapping[str, MemberRecord] = attrs.field(factory=dict)
    # another living keeperd has the name of this node: the record of the name has another nonce, not of an ended one
    has_twin: bool = False
    # the last time that an operator took etcd as it was
    accepted: Accepted | None = None
    # etcd takes no writes: NOSPACE
    is_full: bool = False


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
    # this node's files count only when a master of a higher epoch has compared them; 0: no need
    lacking: int = 0
    # epoch of the last acceptance of a restored etcd that this node knows; 0: none
    accepted: int = 0
    # a campaign was begun, and its outcome was not stored yet
    is_campaigning: bool = False
    # etcd was older than this; only an acceptance ends that
    is_doubtful: bool = False
    # highest format of the key of the master that a living master has used
    format: int = FORMAT

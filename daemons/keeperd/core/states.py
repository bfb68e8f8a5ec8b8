"""The states of keeperd's machine, what etcd has shown to it, and what this node remembers.

Source: DESIGN section 14; lease.md 7 and 8.
"""

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import InternalError
from common.lease.records import (
    FORMAT,
    AcceptedRestore,
    LastMaster,
    Maintenance,
    MasterRecord,
    MemberRecord,
    OperatorRequest,
    Role,
)


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
    # None: no node is the master
    master: MasterRecord | None
    # create revision of the key `master`; 0: there is none
    master_revision: int
    # number in the key `epoch`, and its modification revision; 0: there is none
    epoch: int
    epoch_revision: int
    last_master: LastMaster | None = None
    maintenance: Maintenance | None = None
    wanted: OperatorRequest | None = None
    # whether this node is marked stale
    is_stale: bool = False
    # the epoch of the last master that has compared this node's files; 0: none has
    synced: int = 0
    # the other candidates that live, by name
    others: Mapping[str, MemberRecord] = attrs.field(factory=dict)
    # another living keeperd has the name of this node: the record of the name has another nonce, not of an ended one
    has_twin: bool = False
    # the last time that an operator took etcd as it was
    accepted: AcceptedRestore | None = None
    # etcd takes no writes: NOSPACE
    is_full: bool = False


@attrs.frozen
class NodeMemory:
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


# The states of keeperd and every step between them.
#
# Theory. A keeper that holds nothing waits for etcd, follows, is barred, or doubts. One that holds the mastership takes
# it up, serves, is shaky while a renewal is late, leaves when it is asked to. From the holding states there is no way
# to the others but through `stopping`, `lost` or `leaving`, and out of those only when nothing lives that ran under the
# mastership. `STEPS` is the whole table; no other step is made.
#
# Source: lease.md 7.


_S = State
_IDLE_STEPS: Final = {
    _S.WAIT: "etcd does not reply",
    _S.FOLLOW: "it may become the master",
    _S.BARRED: "it may not become the master",
    _S.DOUBT: "etcd is older than remembered",
}


def _idle_but(state: State) -> dict[State, str]:
    return {after: why for after, why in _IDLE_STEPS.items() if after is not state}


STEPS: Final[Mapping[State, Mapping[State, str]]] = {
    _S.OFF: {_S.STOPPING: "started: what an earlier one left is ended"},
    _S.WAIT: _idle_but(_S.WAIT),
    _S.FOLLOW: {**_idle_but(_S.FOLLOW), _S.CAMPAIGN: "nobody is the master, its delay has passed"},
    _S.BARRED: _idle_but(_S.BARRED),
    _S.CAMPAIGN: {**_IDLE_STEPS, _S.TAKING: "the key is ours"},
    _S.TAKING: {
        _S.MASTER: "the daemons serve",
        _S.LEAVING: "keeperd is to end, or the daemons fail",
        _S.STOPPING: "lease or key gone, late, or etcd older",
        _S.LOST: "the deadline has passed",
        **_IDLE_STEPS,  # a node knows a higher epoch, before anything was started
    },
    _S.MASTER: {
        _S.SHAKY: "a renewal is late",
        _S.LEAVING: "switch-over, keeperd is to end, or the daemons fail",
        _S.STOPPING: "lease or key gone, or etcd older",
        _S.LOST: "the deadline has passed",
    },
    _S.SHAKY: {
        _S.MASTER: "renewed",
        _S.LEAVING: "keeperd is to end, or the daemons fail",
        _S.STOPPING: "not renewed, lease or key gone, or etcd older",
        _S.LOST: "the deadline has passed",
    },
    _S.LEAVING: {
        _S.MASTER: "the operator has taken it back",
        _S.STOPPING: "not renewed, lease or key gone, or etcd older",
        _S.LOST: "the deadline has passed",
        **_IDLE_STEPS,  # nothing lives, the lease is given back
    },
    _S.STOPPING: {_S.LOST: "the deadline has passed, and something lives", **_IDLE_STEPS},
    _S.LOST: _IDLE_STEPS,
    _S.DOUBT: {after: "an operator has accepted it" for after in (_S.WAIT, _S.FOLLOW, _S.BARRED)},
}

# holds nothing; nothing of a mastership lives here
IDLE: Final = frozenset({_S.WAIT, _S.FOLLOW, _S.BARRED, _S.DOUBT})
# renews its lease
HOLDING: Final = frozenset({_S.TAKING, _S.MASTER, _S.SHAKY, _S.LEAVING})
# ends what runs under a mastership
ENDING: Final = frozenset({_S.LEAVING, _S.STOPPING, _S.LOST})

ROLES: Final[Mapping[State, Role]] = {
    _S.OFF: Role.WAITING,
    _S.WAIT: Role.WAITING,
    _S.FOLLOW: Role.REPLICA,
    _S.BARRED: Role.BARRED,
    _S.CAMPAIGN: Role.REPLICA,
    _S.TAKING: Role.CHANGING,
    _S.MASTER: Role.MASTER,
    _S.SHAKY: Role.MASTER,
    _S.LEAVING: Role.CHANGING,
    _S.STOPPING: Role.CHANGING,
    _S.LOST: Role.CHANGING,
    _S.DOUBT: Role.DOUBT,
}


def check_step(before: State, after: State) -> None:
    """Raises: InternalError: the table has no such step."""
    if after not in STEPS[before]:
        raise InternalError(f"keeperd cannot go from '{before.value}' to '{after.value}'")

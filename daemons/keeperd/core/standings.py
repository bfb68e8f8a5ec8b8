"""The states of keeperd and every step between them.

Theory. A keeper that holds nothing waits for etcd, follows, is barred, or doubts. One that holds the mastership takes
it up, serves, is shaky while a renewal is late, leaves when it is asked to. From the holding states there is no way to
the others but through `stopping`, `lost` or `leaving`, and out of those only when nothing lives that ran under the
mastership. `STEPS` is the whole table; no other step is made.

Source: lease.md 7.
"""

from collections.abc import Mapping
from typing import Final

from common.errors import InternalError
from common.lease.records import Role
from daemons.keeperd.core.states import State

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

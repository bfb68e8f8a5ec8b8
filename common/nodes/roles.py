"""The role that OP_NODE_SET_PARAMS gives a node: candidate, drained, offline, or none of these. Pure.

Theory. A node has one role at most; a flag that is set to true takes the place of the others, and one that is set to
false ends its role. A node that returns, since it is no longer offline or drained, or is capable now, becomes a
candidate by itself if the pool has room. The master's role changes only by moving the master.

Source: opcodes.md 4, NODE_SET_PARAMS.
"""

import enum
from collections.abc import Sequence
from typing import Final

import attrs

from common.errors import PrerequisiteError, wrong_input
from common.objects.config import Node


class NodeRole(enum.Enum):
    """A role, by the name of its flag."""

    CANDIDATE = "master_candidate"
    DRAINED = "drained"
    OFFLINE = "offline"
    REGULAR = "regular"


# flags in the order of Ganeti's result
FLAGS: Final = ("master_candidate", "drained", "offline")


@attrs.frozen(kw_only=True)
class RoleRequest:
    """The flags of the opcode; None: as it is."""

    master_candidate: bool | None = None
    drained: bool | None = None
    offline: bool | None = None
    master_capable: bool | None = None

    @property
    def changes_role(self) -> bool:
        return any(getattr(self, flag) is not None for flag in FLAGS)


@attrs.frozen
class RoleDecision:
    role: NodeRole
    # lines for the job's log
    notes: Sequence[str] = ()


def role_of(node: Node) -> NodeRole:
    """The role that the node has now."""
    return next((NodeRole(flag) for flag in FLAGS if getattr(node, flag)), NodeRole.REGULAR)


def with_role(node: Node, role: NodeRole) -> Node:
    """The node with this role, and no other."""
    return attrs.evolve(
        node,
        master_candidate=role is NodeRole.CANDIDATE,
        drained=role is NodeRole.DRAINED,
        offline=role is NodeRole.OFFLINE,
    )


def decide_role(node: Node, request: RoleRequest, *, is_master: bool, has_room: bool) -> RoleDecision:
    """Decide on the role of a node.

    Args:
        has_room: whether the pool has room for one more candidate beside the other nodes.
    Raises: PrerequisiteError: the flags asked for contradict each other or the node's flags.
    """
    _check(node, request, is_master=is_master)
    notes: list[str] = []
    now = role_of(node)
    effective = {flag: wanted for flag in FLAGS if (wanted := getattr(request, flag)) is not None}
    for flag, wanted in list(effective.items()):
        if not wanted and not getattr(node, flag):
            del effective[flag]
            notes.append(f"'{flag}' is not set, so it is not unset")
    asked = next((NodeRole(flag) for flag, wanted in effective.items() if wanted), None)
    if request.master_capable is False and now is NodeRole.CANDIDATE and asked is None:
        notes.append(f"node '{node.name}' is no longer a master candidate")
        return RoleDecision(NodeRole.REGULAR, notes)
    if asked is not None:
        return RoleDecision(asked, notes)
    # what is left ends the role that the node has
    role = NodeRole.REGULAR if effective else now
    is_capable = node.master_capable if request.master_capable is None else request.master_capable
    if role is NodeRole.REGULAR and has_room and is_capable and _returns(node, effective, request):
        notes.append(f"node '{node.name}' becomes a master candidate")
        return RoleDecision(NodeRole.CANDIDATE, notes)
    return RoleDecision(role, notes)


def _check(node: Node, request: RoleRequest, *, is_master: bool) -> None:
    asked = [flag for flag in FLAGS if getattr(request, flag)]
    if len(asked) > 1:
        raise wrong_input(f"a node cannot be {' and '.join(asked)} at once; name one of them")
    if is_master and request.changes_role:
        raise wrong_input(
            f"node '{node.name}' is the master; its role changes only with the master: gnt-cluster master-failover"
        )
    if is_master and request.master_capable is False:
        raise PrerequisiteError(f"node '{node.name}' is the master and must stay master capable")
    is_capable = node.master_capable if request.master_capable is None else request.master_capable
    if request.master_candidate and not is_capable:
        raise PrerequisiteError(f"node '{node.name}' is not master capable, and cannot be a master candidate")


def _returns(node: Node, effective: dict[str, bool], request: RoleRequest) -> bool:
    """Whether the node may be a candidate from now on, and was not allowed to before."""
    if request.master_candidate is False:
        return False
    has_ended = "drained" in effective or "offline" in effective
    return has_ended or (request.master_capable is True and not node.master_capable)

"""The role that OP_NODE_SET_PARAMS gives a node, for every state and every wish, against Ganeti's procedure."""

import itertools
from collections.abc import Mapping

import pytest

from common.errors import PrerequisiteError
from common.nodes.roles import FLAGS, NodeRole, RoleRequest, decide_role, role_of, with_role
from common.objects.config import Node
from tests.support.configs import node

WISHES = (None, False, True)


class RefusedError(Exception):
    """Ganeti refuses it."""


def as_ganeti(one: Node, wishes: Mapping[str, bool | None], is_master: bool, has_room: bool) -> str:
    """The steps of Ganeti's LUNodeSetParams one after the other: each changes the wishes that the next one sees."""
    op = dict(wishes)
    stays_away = wishes["master_candidate"] is False
    if [op[flag] for flag in FLAGS].count(True) > 1:
        raise RefusedError
    if is_master and any(op[flag] is not None for flag in FLAGS):
        raise RefusedError
    capable_after = one.master_capable if op["master_capable"] is None else op["master_capable"]
    if op["master_candidate"] and not capable_after:
        raise RefusedError
    for flag in FLAGS:
        if op[flag] is False and getattr(one, flag) is False:
            op[flag] = None
    may_promote = op["drained"] is False or op["offline"] is False or (op["master_capable"] and not one.master_capable)
    in_the_way = op["drained"] or op["offline"] or stays_away or not capable_after or _keeps_flag(one, op)
    if may_promote and has_room and not in_the_way:
        op["master_candidate"] = True
    if op["master_capable"] is False and is_master:
        raise RefusedError
    if op["master_capable"] is False and one.master_candidate:
        op["master_candidate"] = False
    for flag in FLAGS:
        if op[flag]:
            return flag
    if any(op[flag] is False for flag in FLAGS):
        return "regular"
    return role_of(one).value


def _keeps_flag(one: Node, op: Mapping[str, bool | None]) -> bool:
    """Whether the node stays drained or offline; Ganeti would promote it nevertheless."""
    return any(getattr(one, flag) and op[flag] is None for flag in ("drained", "offline"))


def all_nodes() -> list[Node]:
    roles = [with_role(node("n1", master_capable=capable), role) for capable in (True, False) for role in NodeRole]
    return [one for one in roles if one.master_capable or not one.master_candidate]


def test_every_wish_leads_to_ganetis_role_or_refusal() -> None:
    names = (*FLAGS, "master_capable")
    for one, values, has_room in itertools.product(all_nodes(), itertools.product(WISHES, repeat=4), (False, True)):
        for is_master in (False, True) if one.master_candidate else (False,):
            wishes = dict(zip(names, values, strict=True))
            try:
                expected = as_ganeti(one, wishes, is_master, has_room)
            except RefusedError:
                with pytest.raises(PrerequisiteError):
                    decide_role(one, RoleRequest(**wishes), is_master=is_master, has_room=has_room)
                continue
            decision = decide_role(one, RoleRequest(**wishes), is_master=is_master, has_room=has_room)
            assert decision.role.value == expected, (one, wishes, is_master, has_room)
            after = with_role(one, decision.role)
            assert sum(getattr(after, flag) for flag in FLAGS) <= 1


def test_a_wish_without_effect_is_told_of() -> None:
    decision = decide_role(node("n1"), RoleRequest(drained=False), is_master=False, has_room=True)

    assert decision.role is NodeRole.REGULAR
    assert decision.notes == ["'drained' is not set, so it is not unset"]

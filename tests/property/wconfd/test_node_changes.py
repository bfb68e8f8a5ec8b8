"""The pool of candidates against a naive twin; changes of nodes leave roles, certificates and pool sound."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from common.errors import GantryError
from common.nodes.candidates import has_room, missing_candidates, promotable
from common.objects.config import Config, Node
from common.objects.kinds import NodeUuid
from daemons.wconfd.core.config.nodechanges import NodeChange, change_nodes
from tests.support.configs import UUIDS, node, small_config

NAMES = [f"n{number}" for number in range(1, 12)]
NOW = 2000.0
ROLES = st.sampled_from([(False, False, False), (True, False, False), (False, True, False), (False, False, True)])
FLAGS = st.tuples(st.booleans(), st.booleans(), st.booleans())


@st.composite
def a_node(draw: st.DrawFn, name: str, roles: st.SearchStrategy[tuple[bool, bool, bool]]) -> Node:
    candidate, offline, drained = draw(roles)
    number = name.removeprefix("n")
    return node(
        name,
        candidate=candidate,
        offline=offline,
        drained=drained,
        # a candidate is capable
        master_capable=candidate or draw(st.booleans()),
        primary_ip=f"10.0.0.{number}",
        secondary_ip=f"10.0.0.{number}",
    )


@st.composite
def some_nodes(draw: st.DrawFn, roles: st.SearchStrategy[tuple[bool, bool, bool]] = ROLES) -> list[Node]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return [draw(a_node(name, roles)) for name in names]


def naive_fill(nodes: list[Node], pool_size: int) -> set[str]:
    """Promote one node after the other, counting everything each time, as Ganeti does; returns the promoted."""
    now = list(nodes)
    promoted: set[str] = set()
    while True:
        could = [one for one in now if one.master_capable and not one.offline and not one.drained]
        have = [one for one in now if one.master_candidate]
        rest = [one for one in could if not one.master_candidate]
        if len(have) >= min(len(could), pool_size) or not rest:
            return promoted
        chosen = min(rest, key=lambda one: int(one.name.removeprefix("n")))
        now[now.index(chosen)] = attrs.evolve(chosen, master_candidate=True)
        promoted.add(chosen.name)


@given(some_nodes(), st.integers(1, 12))
def test_the_missing_candidates_are_those_that_one_by_one_filling_promotes(nodes: list[Node], size: int) -> None:
    missing = missing_candidates(nodes, size)

    assert {one.name for one in promotable(nodes)[:missing]} == naive_fill(nodes, size)


@given(some_nodes(), st.integers(1, 12))
def test_there_is_room_for_a_node_if_filling_would_promote_it_were_it_the_first(nodes: list[Node], size: int) -> None:
    # smaller than all other names, so that the twin chooses it first
    new = node("n0")

    assert has_room(nodes, size) == ("n0" in naive_fill([*nodes, new], size))


def config_with(nodes: list[Node], size: int) -> Config:
    config = small_config()
    certs = {NodeUuid(one.uuid): f"digest-{one.name}" for one in nodes if one.master_candidate}
    cluster = attrs.evolve(
        config.cluster, candidate_pool_size=size, candidate_certs={UUIDS.node: "digest-master", **certs}
    )
    return attrs.evolve(config, cluster=cluster, nodes={**config.nodes, **{NodeUuid(one.uuid): one for one in nodes}})


@given(some_nodes(), some_nodes(FLAGS), st.sets(st.sampled_from(NAMES)), st.integers(1, 12), st.data())
def test_after_a_change_exactly_the_candidates_have_certificates(
    before: list[Node], given_nodes: list[Node], removed: set[str], size: int, data: st.DataObject
) -> None:
    config = config_with(before, size)
    digests = {NodeUuid(one.uuid): f"new-{one.name}" for one in given_nodes if data.draw(st.booleans())}
    stored = {one.name: one.serial_no for one in before}
    change = NodeChange(
        nodes=tuple(attrs.evolve(one, serial_no=stored.get(one.name, 0)) for one in given_nodes),
        removed=tuple(NodeUuid(f"uuid-{name}") for name in sorted(removed)),
        certificates=digests,
        may_fall_short=data.draw(st.booleans()),
    )

    try:
        after, stamp = change_nodes(config, change, NOW)
    except GantryError:
        return

    candidates = {uuid for uuid, one in after.nodes.items() if one.master_candidate}
    assert set(after.cluster.candidate_certs) == candidates
    assert UUIDS.node in candidates
    for one in after.nodes.values():
        assert one.master_candidate + one.offline + one.drained <= 1
        assert one.master_capable or not one.master_candidate
    # a change of nothing is none
    is_none = not given_nodes and not removed
    assert stamp == ((config.serial_no, config.mtime) if is_none else (config.serial_no + 1, NOW))
    assert len({one.name for one in after.nodes.values()}) == len(after.nodes)
    lost = {uuid for uuid, one in config.nodes.items() if one.master_candidate} - candidates
    if lost and not change.may_fall_short:
        # the twin reads numbers from names
        rest = [attrs.evolve(one, name=one.name.replace("node1.test", "n0")) for one in after.nodes.values()]
        assert not naive_fill([one for one in rest if one.uuid not in lost], size)

"""After any changes of node groups and tags the configuration is sound, and as a naive twin has it."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from common.errors import GantryError
from common.objects.codec import decode_config, to_json
from common.objects.config import Config, NodeGroup
from common.objects.kinds import GroupUuid, NodeUuid
from daemons.wconfd.core.config.changes import change_tags
from daemons.wconfd.core.config.groupchanges import GroupChange, change_groups
from daemons.wconfd.core.config.nodechanges import NodeChange, change_nodes
from daemons.wconfd.core.config.verify import find_problems
from tests.support.configs import node, small_config

NAMES = ("default", "a", "b", "uuid-group", "uuid-a")
UUIDS = ("uuid-group", "uuid-a", "uuid-b", "uuid-n2")
TAGS = st.sets(st.sampled_from("abcd"), max_size=3)


def base() -> Config:
    config = small_config()
    return attrs.evolve(config, nodes={**config.nodes, NodeUuid("uuid-n2"): node("n2", primary_ip="10.0.0.2")})


@st.composite
def a_group(draw: st.DrawFn, config: Config) -> NodeGroup:
    uuid = GroupUuid(draw(st.sampled_from(UUIDS)))
    stored = config.nodegroups.get(uuid)
    (default,) = small_config().nodegroups.values()
    serial = stored.serial_no if stored and draw(st.booleans()) else 0
    return attrs.evolve(stored or default, uuid=uuid, name=draw(st.sampled_from(NAMES)), serial_no=serial)


@st.composite
def a_change(draw: st.DrawFn, config: Config) -> GroupChange:
    removed = draw(st.sets(st.sampled_from(UUIDS), max_size=2))
    groups = draw(st.lists(a_group(config), max_size=2, unique_by=lambda each: each.uuid))
    return GroupChange(groups=tuple(groups), removed=tuple(map(GroupUuid, sorted(removed))))


@given(st.data())
def test_names_stay_unique_and_every_node_has_its_group(data: st.DataObject) -> None:
    config = base()
    for step in range(6):
        before = config
        if data.draw(st.booleans()):
            moved = attrs.evolve(
                config.nodes[NodeUuid("uuid-n2")], group=data.draw(st.sampled_from(sorted(config.nodegroups)))
            )
            config, _ = change_nodes(config, NodeChange(nodes=(moved,)), 2000.0 + step)
            continue
        change = data.draw(a_change(config))
        try:
            config, stamp = change_groups(config, change, 2000.0 + step)
        except GantryError:
            assert config is before
            continue

        assert stamp == (before.serial_no + 1, 2000.0 + step)
        kept = {uuid for uuid in before.nodegroups if uuid not in change.removed}
        assert set(config.nodegroups) == kept | {each.uuid for each in change.groups}
        names = [group.name for group in config.nodegroups.values()]
        assert len(set(names)) == len(names)
        assert all(group.serial_no >= 1 for group in config.nodegroups.values())
    assert config.nodegroups
    assert find_problems(config) == find_problems(base())
    assert decode_config(to_json(config)) == config


@given(st.lists(st.tuples(st.sampled_from(["cluster", "node", "nodegroup"]), TAGS, TAGS), max_size=8))
def test_tags_are_those_of_a_set_and_only_effective_changes_count(
    changes: list[tuple[str, set[str], set[str]]],
) -> None:
    config = base()
    twin: dict[str, set[str]] = {"cluster": set(), "node": set(), "nodegroup": set()}
    uuids = {"cluster": "", "node": "uuid-n2", "nodegroup": "uuid-group"}
    count = 0
    for kind, added, removed in changes:
        wanted = (twin[kind] | added) - removed
        count += wanted != twin[kind]
        twin[kind] = wanted

        config = change_tags(config, kind, uuids[kind], sorted(added), sorted(removed), 2000.0)

    assert config.cluster.tags == twin["cluster"]
    assert config.nodes[NodeUuid("uuid-n2")].tags == twin["node"]
    assert config.nodegroups[GroupUuid("uuid-group")].tags == twin["nodegroup"]
    assert config.serial_no == base().serial_no + count

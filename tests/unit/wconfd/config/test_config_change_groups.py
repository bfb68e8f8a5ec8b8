"""Changes of node groups and tags that are refused, and those that are delivered twice (opcodes.md 4)."""

from typing import Any

import attrs
import pytest

from common.errors import ConfigurationError, Conflict, TagError
from common.objects.config import Config, NodeGroup, PartialNicParams
from common.objects.kinds import GroupUuid, InstanceUuid, NetworkUuid
from daemons.wconfd.core.config.changes import change_tags
from daemons.wconfd.core.config.groupchanges import GroupChange, change_groups
from tests.support.configs import UUIDS, instance, small_config

NOW = 2000.0


def new(name: str = "g2", **changes: Any) -> NodeGroup:
    (default,) = small_config().nodegroups.values()
    return attrs.evolve(default, **{"name": name, "uuid": f"uuid-{name}", "serial_no": 0, **changes})


def with_group(name: str = "g2") -> Config:
    return change_groups(small_config(), GroupChange(groups=(new(name),)), 1500.0)[0]


def refused(config: Config, *groups: NodeGroup, removed: tuple[str, ...] = ()) -> str:
    with pytest.raises((Conflict, ConfigurationError)) as raised:
        change_groups(config, GroupChange(groups=groups, removed=tuple(map(GroupUuid, removed))), NOW)
    return raised.value.message


def test_a_group_is_added_and_another_removed_in_one_change() -> None:
    config = with_group()

    after, stamp = change_groups(config, GroupChange(groups=(new("g3"),), removed=(GroupUuid("uuid-g2"),)), NOW)

    added = after.nodegroups[GroupUuid("uuid-g3")]
    assert set(after.nodegroups) == {UUIDS.group, "uuid-g3"}
    assert (added.serial_no, added.ctime, added.mtime) == (1, NOW, NOW)
    assert (stamp, after.cluster.serial_no) == ((config.serial_no + 1, NOW), config.cluster.serial_no + 1)


def test_the_second_delivery_of_a_change_is_told_the_same_and_changes_nothing() -> None:
    config = with_group()
    change = GroupChange(removed=(GroupUuid("uuid-g2"),))
    after, stamp = change_groups(config, change, NOW)

    assert change_groups(after, change, NOW + 1, stamp) == (after, stamp)


def test_a_renamed_group_keeps_everything_else() -> None:
    config = with_group()
    before = config.nodegroups[GroupUuid("uuid-g2")]

    after, _ = change_groups(config, GroupChange(groups=(attrs.evolve(before, name="g9"),)), NOW)

    assert after.nodegroups[GroupUuid("uuid-g2")] == attrs.evolve(before, name="g9", serial_no=2, mtime=NOW)


@pytest.mark.parametrize("name", ["default", UUIDS.group])
def test_a_name_that_means_another_group_is_refused(name: str) -> None:
    assert refused(small_config(), new(name, uuid="uuid-new")) == f"there is a node group '{name}' already"


def test_two_new_groups_of_one_name_are_refused() -> None:
    assert "there is a node group 'g3' already" in refused(small_config(), new("g3"), new("g3", uuid="uuid-other"))


def test_a_group_with_nodes_stays() -> None:
    text = refused(small_config(), removed=(UUIDS.group,))

    assert text == "node group 'default' has nodes, as 'node1.test'; put them into another group first"


def test_the_last_group_stays_even_without_nodes() -> None:
    config = attrs.evolve(small_config(), nodes={})

    assert refused(config, removed=(UUIDS.group,)) == "the last node group cannot be removed"


def test_what_a_change_was_decided_upon_must_still_be_so() -> None:
    config = with_group()

    assert "its serial number is 1, not 0; read it again" in refused(config, new())
    assert "there is no node group with the uuid 'uuid-g9'" in refused(config, removed=("uuid-g9",))
    assert "something else has already the uuid" in refused(config, new("g3", uuid=UUIDS.node))
    connected = new("g3", networks={NetworkUuid("uuid-net"): PartialNicParams()})
    assert "cannot have network 'uuid-net', which does not exist" in refused(config, connected)


@pytest.mark.parametrize(
    ("kind", "uuid", "table"),
    [
        ("node", UUIDS.node, "nodes"),
        ("nodegroup", UUIDS.group, "nodegroups"),
        ("instance", "i1", "instances"),
    ],
)
def test_tags_of_an_object_are_added_and_removed(kind: str, uuid: str, table: str) -> None:
    config = attrs.evolve(small_config(), instances={InstanceUuid("i1"): instance("i1")})
    before = getattr(config, table)[uuid]

    once = change_tags(config, kind, uuid, ["a", "b"], [], NOW)
    twice = change_tags(once, kind, uuid, ["c"], ["a", "x"], NOW + 1)

    after = getattr(twice, table)[uuid]
    assert after == attrs.evolve(before, tags=frozenset("bc"), serial_no=before.serial_no + 2, mtime=NOW + 1)
    assert twice.serial_no == config.serial_no + 2
    assert change_tags(twice, kind, uuid, ["c"], ["a"], NOW + 2) is twice


def test_the_cluster_has_tags_too() -> None:
    config = small_config()

    after = change_tags(config, "cluster", "", ["owner:ops"], [], NOW)

    assert after.cluster.tags == {"owner:ops"}
    assert after.cluster.serial_no == config.cluster.serial_no + 1
    assert change_tags(after, "cluster", "", ["owner:ops"], ["none"], NOW + 1) is after


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("", "a tag must not be empty"),
        ("x" * 129, f"the tag '{'x' * 40}...' has 129 characters; at most 128 are allowed"),
        ("a b", "the tag 'a b' has other characters than letters, digits and .+*/:@-_"),
        ("a\n", "the tag 'a\\n' has other characters than"),
        ("ü", "the tag 'ü' has other characters than"),
    ],
)
def test_a_tag_that_breaks_the_rules_is_refused(tag: str, text: str) -> None:
    with pytest.raises(TagError) as raised:
        change_tags(small_config(), "cluster", "", ["fine", tag], [], NOW)

    assert raised.value.message.startswith(text)


def test_an_object_has_at_most_4096_tags() -> None:
    full = change_tags(small_config(), "cluster", "", [f"t{number}" for number in range(4096)], [], NOW)

    with pytest.raises(TagError, match="the object would have 4097 tags; at most 4096 are allowed"):
        change_tags(full, "cluster", "", ["more"], [], NOW)

    assert len(change_tags(full, "cluster", "", ["more"], ["t1"], NOW).cluster.tags) == 4096


def test_an_unknown_object_has_no_tags() -> None:
    with pytest.raises(ConfigurationError, match="there is no network with the uuid 'n1'"):
        change_tags(small_config(), "network", "n1", ["a"], [], NOW)

"""Updates of whole objects, ports, filter rules, and finding objects (wconfd.md 2.3)."""

from typing import Any

import attrs
import pytest

from common.conditions import Condition
from common.errors import ConfigurationError, Conflict, InvalidRequest, NotFound, PreconditionFailed
from common.objects.codec import decode_object, encode_config
from common.objects.config import Config
from common.objects.filter import FilterRule, rule_tag
from common.objects.kinds import DiskUuid, FilterUuid, GroupUuid, InstanceUuid, NodeUuid
from daemons.wconfd.core.config import changes as filterrules
from daemons.wconfd.core.config import instances
from daemons.wconfd.core.config.changes import update_cluster, update_object
from daemons.wconfd.core.config.configstate import find_key, reloaded
from tests.support.configs import disk, instance, small_config

NOW = 2000.0


def with_pool(*pool: int, highest: int = 11000) -> Config:
    config = small_config()
    return attrs.evolve(config, cluster=attrs.evolve(config.cluster, tcpudp_port_pool=pool, highest_used_port=highest))


# updates


def test_an_update_counts_even_if_nothing_else_differs() -> None:
    config = small_config()
    (group,) = config.nodegroups.values()

    after, stamp = update_object(config, "nodegroups", group, NOW)

    assert stamp == (2, NOW)
    assert after.nodegroups[GroupUuid(group.uuid)] == attrs.evolve(group, serial_no=2, mtime=NOW)
    assert (after.serial_no, after.mtime, after.cluster) == (2, NOW, config.cluster)


def test_the_update_of_a_node_counts_for_the_cluster() -> None:
    config = small_config()
    (node,) = config.nodes.values()

    after, stamp = update_object(config, "nodes", attrs.evolve(node, drained=True), NOW)

    assert stamp == (2, NOW)
    assert after.nodes[NodeUuid(node.uuid)].drained
    assert (after.cluster.serial_no, after.cluster.mtime) == (config.cluster.serial_no + 1, NOW)


def test_the_second_delivery_of_an_update_is_told_the_same() -> None:
    config = small_config()
    given = attrs.evolve(config.cluster, cluster_name="other")
    after, stamp = update_cluster(config, given, NOW)

    again, same_stamp = update_cluster(after, given, NOW + 1)

    assert again is after
    assert same_stamp == stamp == (2, NOW)


def test_an_update_of_what_was_changed_meanwhile_is_refused() -> None:
    config = small_config()
    after, _ = update_cluster(config, attrs.evolve(config.cluster, cluster_name="other"), NOW)

    with pytest.raises(ConfigurationError, match="its serial number is 2, not 1; read it again"):
        update_cluster(after, attrs.evolve(config.cluster, cluster_name="mine"), NOW)


def test_a_second_delivery_that_is_equal_only_to_python_is_none() -> None:
    config = attrs.evolve(small_config(), instances={InstanceUuid("a"): instance("a", hvparams={"x": 1})})
    after, _ = update_object(config, "instances", instance("a", hvparams={"x": 1}), NOW)

    with pytest.raises(ConfigurationError, match="was changed since it was read"):
        update_object(after, "instances", instance("a", hvparams={"x": True}), NOW)


@pytest.mark.parametrize("table", ["nodes", "instances", "disks"])
def test_an_unknown_object_is_not_updated(table: str) -> None:
    with pytest.raises(ConfigurationError, match="no object with the uuid 'none'"):
        update_object(small_config(), table, disk("none"), NOW)


def test_another_cluster_is_not_updated() -> None:
    config = small_config()

    with pytest.raises(ConfigurationError, match="no object with the uuid 'none'"):
        update_cluster(config, attrs.evolve(config.cluster, uuid="none"), NOW)


# a file changed from outside


@pytest.mark.parametrize(("theirs", "serial"), [(1, 6), (5, 6), (9, 10)])
def test_a_reloaded_configuration_has_a_serial_that_nobody_has_seen(theirs: int, serial: int) -> None:
    before = attrs.evolve(small_config(), serial_no=5)
    given = attrs.evolve(with_pool(11001), serial_no=theirs)

    after = reloaded(before, given, NOW)

    assert after == attrs.evolve(given, serial_no=serial, mtime=NOW)
    assert reloaded(after, after, NOW + 1) is after


# ports


def test_a_port_given_back_is_taken_first() -> None:
    config, port = instances.allocate_port(with_pool(11003, 11001), NOW)

    assert port == 11003
    assert (config.cluster.tcpudp_port_pool, config.cluster.highest_used_port) == ((11001,), 11000)
    assert config.serial_no == 2


def test_without_such_ports_the_next_one_is_taken() -> None:
    config, port = instances.allocate_port(with_pool(highest=14998), NOW)

    assert (port, config.cluster.highest_used_port) == (14999, 14999)
    with pytest.raises(ConfigurationError, match="no port is free"):
        instances.allocate_port(config, NOW)


def test_a_port_given_back_twice_is_there_once() -> None:
    once = instances.add_port(with_pool(11003, 11001), 11001, NOW)

    assert once.cluster.tcpudp_port_pool == (11001, 11003)
    assert instances.add_port(once, 11001, NOW + 1) is once


# filter rules


def rule(**changes: Any) -> FilterRule:
    value = {"uuid": "f", "priority": 1, "predicates": [], "action": "PAUSE", "reason_trail": [], "watermark": 3}
    return decode_object({**value, **changes}, FilterRule, "filter rule")


def test_a_filter_rule_is_added_replaced_and_deleted_once_each() -> None:
    added = filterrules.replace_filter(small_config(), rule(), NOW)
    replaced = filterrules.replace_filter(added, rule(action=["RATE_LIMIT", 2]), NOW)
    deleted = filterrules.delete_filter(replaced, "f", NOW)

    assert [config.serial_no for config in (added, replaced, deleted)] == [2, 3, 4]
    assert replaced.filters == {"f": rule(action=["RATE_LIMIT", 2])}
    assert filterrules.replace_filter(replaced, rule(action=["RATE_LIMIT", 2]), NOW) is replaced
    assert not deleted.filters
    assert filterrules.delete_filter(deleted, "f", NOW) is deleted


def test_a_rule_changes_only_if_it_is_what_the_condition_says() -> None:
    config = filterrules.replace_filter(small_config(), rule(), NOW, Condition(is_there=False))
    seen = Condition(tags=(rule_tag(rule()),))
    other = rule(action="REJECT")

    after = filterrules.replace_filter(config, other, NOW, seen)
    for condition in (seen, Condition(is_there=False)):
        with pytest.raises(PreconditionFailed) as caught:
            filterrules.replace_filter(after, rule(action="ACCEPT"), NOW, condition)
        assert caught.value.fields == {"current_tag": rule_tag(other)}
    with pytest.raises(PreconditionFailed):
        filterrules.delete_filter(after, "f", NOW, seen)
    with pytest.raises(PreconditionFailed, match="there is no filter rule 'f'"):
        filterrules.replace_filter(small_config(), rule(), NOW, seen)
    assert filterrules.delete_filter(small_config(), "f", NOW, seen).filters == {}


def test_a_rule_that_one_call_sets_twice_is_no_other_rule() -> None:
    seen = Condition(tags=(rule_tag(rule()),))
    config = filterrules.replace_filter(small_config(), rule(), NOW)

    def asked(at_ns: int, delivered_ns: int) -> FilterRule:
        return rule(action="REJECT", reason_trail=[["gnt:client:rapid", "ann", at_ns], ["luxid", "", delivered_ns]])

    once = filterrules.replace_filter(config, asked(1, 2), NOW, seen)
    twice = filterrules.replace_filter(once, asked(1, 3), NOW, seen)

    assert twice.filters == {"f": asked(1, 3)}
    with pytest.raises(PreconditionFailed):
        filterrules.replace_filter(once, asked(2, 3), NOW, seen)


# finding


@pytest.fixture
def config() -> Config:
    return attrs.evolve(
        small_config(),
        instances={
            InstanceUuid("a"): instance("a"),
            InstanceUuid("b"): instance("b", name="twin"),
            InstanceUuid("c"): instance("c", name="twin"),
        },
        disks={DiskUuid("d"): disk("d")},
        filters={FilterUuid("f"): rule()},
    )


@pytest.mark.parametrize(
    ("kind", "name", "place"),
    [
        ("cluster", "whatever", ("cluster", "cluster")),
        ("node", "node1.test", ("nodes", "uuid-node")),
        ("node", "uuid-node", ("nodes", "uuid-node")),
        ("nodegroup", "default", ("nodegroups", "uuid-group")),
        ("instance", "a.test", ("instances", "a")),
        ("instance", "b", ("instances", "b")),
        ("disk", "d", ("disks", "d")),
        ("filter", "f", ("filters", "f")),
    ],
)
def test_an_object_is_found_by_uuid_and_by_name(config: Config, kind: str, name: str, place: tuple[str, str]) -> None:
    assert find_key(config, kind, name) == place
    assert encode_config(config).object(*place) in encode_config(config).content


def test_what_is_not_there_or_not_one_is_said(config: Config) -> None:
    with pytest.raises(Conflict, match="give one of the uuids b, c"):
        find_key(config, "instance", "twin")
    with pytest.raises(NotFound, match="no node 'none'"):
        find_key(config, "node", "none")
    with pytest.raises(InvalidRequest, match="kinds are cluster, node"):
        find_key(config, "job", "1")

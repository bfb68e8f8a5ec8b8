"""When a write counts: serial numbers, times, and calls delivered twice (wconfd.md 2.2, 7.4, 7.5)."""

from typing import Any

import attrs
import pytest

from common.objects.config import Config
from common.objects.kinds import GroupUuid, Hypervisor, InstanceUuid, NodeUuid
from daemons.wconfd.core.config.configstate import ConfigState, advanced, is_urgent, nodes_of_group, written
from tests.support.configs import UUIDS, instance, small_config


def renamed(config: Config, name: str) -> Config:
    return attrs.evolve(config, cluster=attrs.evolve(config.cluster, cluster_name=name))


def test_an_effective_write_has_the_given_serial_plus_one() -> None:
    config = small_config()
    given = attrs.evolve(renamed(config, "other"), serial_no=40)

    after = written(config, given, 2000.0)

    assert after == attrs.evolve(given, serial_no=41, mtime=2000.0)


def test_a_write_of_the_same_changes_nothing() -> None:
    config = small_config()

    assert written(config, attrs.evolve(config), 2000.0) is config
    assert advanced(config, attrs.evolve(config), 2000.0) is config


def test_a_write_delivered_twice_counts_once() -> None:
    config = small_config()
    given = renamed(config, "other")
    once = written(config, given, 2000.0)

    assert written(once, given, 3000.0) is once


def test_true_is_not_the_same_as_one() -> None:
    config = small_config()
    one, true = (
        attrs.evolve(config, cluster=attrs.evolve(config.cluster, hvparams={Hypervisor.FAKE: {"acpi": [value]}}))
        for value in (1, True)
    )

    assert written(one, true, 2000.0).serial_no == one.serial_no + 1


def test_a_state_has_the_bytes_of_its_configuration() -> None:
    config = small_config()
    before = ConfigState.of(config)

    after = ConfigState.of(renamed(config, "other"), before)

    assert after.encoded.content == ConfigState.of(renamed(config, "other")).encoded.content
    assert after.encoded.content != before.encoded.content


@pytest.mark.parametrize(
    ("change", "urgent"),
    [
        ({"master_node": NodeUuid("x")}, True),
        ({"candidate_certs": {UUIDS.node: "AA"}}, True),
        ({"enabled_user_shutdown": True}, True),
        ({"enabled_hypervisors": (Hypervisor.KVM,)}, True),
        ({"cluster_name": "other"}, False),
    ],
)
def test_the_nodes_are_told_first_of_who_is_master_and_trusted(change: dict[str, Any], urgent: bool) -> None:
    config = small_config()

    assert is_urgent(config, attrs.evolve(config, cluster=attrs.evolve(config.cluster, **change))) is urgent


def test_the_nodes_are_told_first_of_candidates_but_not_of_instances() -> None:
    config = small_config()
    (node,) = config.nodes.values()
    other = attrs.evolve(node, master_candidate=False, uuid="other")
    config = attrs.evolve(config, nodes={**config.nodes, NodeUuid("other"): other})

    def with_other(**changes: Any) -> Config:
        return attrs.evolve(config, nodes={**config.nodes, NodeUuid("other"): attrs.evolve(other, **changes)})

    assert is_urgent(config, with_other(master_candidate=True))
    assert is_urgent(config, with_other(vm_capable=False))
    assert not is_urgent(config, with_other(primary_ip="192.0.2.9"))
    assert not is_urgent(config, attrs.evolve(config, instances={InstanceUuid("i"): instance("i")}))


def test_an_unknown_group_has_no_nodes() -> None:
    config = small_config()

    assert nodes_of_group(config, UUIDS.group) == {UUIDS.node}
    assert nodes_of_group(config, GroupUuid("none")) == frozenset()

"""What makes a configuration inconsistent; all problems at once (wconfd.md 7.6)."""

import attrs

from common.objects.codec import decode_config
from common.objects.kinds import DiskTemplate, GroupUuid, Hypervisor, InstanceUuid, NodeUuid
from daemons.wconfd.core.config.verify import find_problems
from tests.support.configs import UUIDS, instance, recorded_json, small_config


def test_the_recorded_and_the_first_configuration_have_no_problems() -> None:
    assert find_problems(decode_config(recorded_json())) == ()
    assert find_problems(small_config()) == ()


def test_all_problems_are_reported_at_once() -> None:
    config = small_config()
    (node,) = config.nodes.values()
    broken = attrs.evolve(
        config,
        cluster=attrs.evolve(
            config.cluster,
            enabled_hypervisors=(Hypervisor.KVM,),
            enabled_disk_templates=(),
            master_node=NodeUuid("gone"),
        ),
        nodes={NodeUuid("other"): attrs.evolve(node, group=GroupUuid("none"))},
        instances={InstanceUuid("i"): instance("i", disks=["d1", "d2"])},
    )

    assert find_problems(broken) == (
        "hypervisor 'kvm' is enabled, but has no parameters",
        "no disk template is enabled",
        "the master node 'gone' is none of the nodes",
        "nodes: the object under 'other' has the uuid 'uuid-node'",
        "node 'node1.test' is in group 'none', which does not exist",
        "instance 'i.test' has the primary node 'uuid-node', which does not exist",
        "instance 'i.test' has the disk 'd1', which does not exist",
        "instance 'i.test' has the disk 'd2', which does not exist",
    )


def test_a_cluster_without_hypervisors_can_run_nothing() -> None:
    config = small_config()
    cluster = attrs.evolve(config.cluster, enabled_hypervisors=(), enabled_disk_templates=(DiskTemplate.PLAIN,))

    assert find_problems(attrs.evolve(config, cluster=cluster)) == ("no hypervisor is enabled",)


def test_a_forthcoming_instance_needs_no_primary_node() -> None:
    config = small_config()
    one = instance("i", forthcoming=True, primary_node=None, name=None)

    assert find_problems(attrs.evolve(config, instances={InstanceUuid("i"): one})) == ()
    assert UUIDS.node in config.nodes

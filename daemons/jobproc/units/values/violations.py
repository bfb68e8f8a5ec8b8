"""Instances that do not keep to the instance policy of their group. Pure.

Source: wconfd.md 7.3; DESIGN section 7.
"""

from collections.abc import Sequence

import attrs

from common.objects.index import ConfigIndex
from common.objects.instance import AnyInstance
from common.objects.ipolicy import Ipolicy, Ispec, MinMax, PartialIpolicy
from common.objects.kinds import DiskTemplate
from common.objects.nodegroup import NodeGroup
from common.objects.params import filled


def policy_of(config: ConfigIndex, own: PartialIpolicy) -> Ipolicy:
    """A group's policy, with the cluster's for what it lacks; `std` is always the cluster's."""
    return filled(config.cluster.ipolicy, attrs.evolve(own, std=None))


def new_violations(config: ConfigIndex, group: NodeGroup, after: PartialIpolicy) -> Sequence[str]:
    """The names of the group's instances that keep to its policy now, and will not keep to the changed one."""
    return _new(config, group, policy_of(config, after))


def new_cluster_violations(config: ConfigIndex, after: Ipolicy) -> Sequence[str]:
    """The names of all instances that keep to their groups' policies now, and will not after this of the cluster."""
    policies = [(group, filled(after, attrs.evolve(group.ipolicy, std=None))) for group in config.groups]
    return [name for group, policy in policies for name in _new(config, group, policy)]


def _new(config: ConfigIndex, group: NodeGroup, then: Ipolicy) -> Sequence[str]:
    now = policy_of(config, group.ipolicy)
    nodes = {node.uuid for node in config.group_nodes(group.uuid)}
    found = [each for each in config.instances if each.primary_node in nodes]
    return [each.name for each in found if each.name and _keeps(config, each, now) and not _keeps(config, each, then)]


def _keeps(config: ConfigIndex, instance: AnyInstance, policy: Ipolicy) -> bool:
    disks = config.disks(instance)
    templates = {disk.dev_type for disk in disks if disk.dev_type is not None} or {DiskTemplate.DISKLESS}
    if not templates <= set(policy.disk_templates):
        return False
    params = filled(config.cluster.beparams["default"], instance.beparams)
    size = Ispec(
        memory_size=params.maxmem,
        # each disk counts
        disk_size=0,
        disk_count=len(disks),
        cpu_count=params.vcpus,
        nic_count=len(instance.nics),
        spindle_use=params.spindle_use,
    )
    # an instance without disks has no sizes of disks to keep to
    sizes = [attrs.evolve(size, disk_size=disk.size) for disk in disks if disk.size is not None]
    return any(all(_lies_in(each, limits) for each in sizes or [size]) for limits in policy.minmax)


def _lies_in(size: Ispec, limits: MinMax) -> bool:
    return all(
        getattr(limits.min, name) <= getattr(size, name) <= getattr(limits.max, name)
        for name in (field.name for field in attrs.fields(Ispec))
        if name != "disk_size" or size.disk_size
    )

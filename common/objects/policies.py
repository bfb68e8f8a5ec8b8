"""Instance policies, of the cluster and of groups: changing them, and who does not keep to them. Pure.

Source: wconfd.md 7.3, "Parameter groups"; Ganeti's `gnt-group modify` (seen); DESIGN section 7.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from common.errors import InvalidRequest, wrong_input
from common.objects.codec import decode_object, to_json
from common.objects.config import AnyInstance, Ipolicy, Ispec, MinMax, NodeGroup, PartialIpolicy, filled
from common.objects.index import ConfigIndex
from common.objects.kinds import DiskTemplate
from common.objects.parameters import DEFAULT

P = TypeVar("P", Ipolicy, PartialIpolicy)

_OF_CLUSTER: Final = ("minmax", "std", "disk-templates", "vcpu-ratio", "spindle-ratio")
_OF_GROUP: Final = tuple(name for name in _OF_CLUSTER if name != "std")
_RATIOS: Final = ("vcpu_ratio", "spindle_ratio")
_SIZES: Final = tuple(field.name for field in attrs.fields(Ispec))


def changed_group_policy(before: PartialIpolicy, given: Mapping[str, object]) -> PartialIpolicy:
    """The group's own policy with these changes; 'default' makes a part the cluster's again.

    Raises: PrerequisiteError: an unknown part, a wrong value, or sizes of which the least exceeds the most.
    """
    if not given:
        # a policy that was set elsewhere is not judged
        return before
    _check_parts(given, _OF_GROUP, "the instance policy of a group")
    inherited = [name for name, value in given.items() if value in (DEFAULT, [DEFAULT])]
    parts = {name: value for name, value in {**to_json(before), **given}.items() if name not in inherited}
    after = _decoded(parts, PartialIpolicy)
    if after.minmax is not None and not after.minmax:
        raise wrong_input("an instance policy needs a range of sizes, or 'default'")
    _check_ranges(after.minmax or ())
    if after.disk_templates is not None and not after.disk_templates:
        raise wrong_input("an instance policy needs a disk template, or 'default'")
    for name in _RATIOS:
        value = getattr(after, name)
        if value is not None and not 0 <= value < float("inf"):
            raise wrong_input(f"'{_word(name)}' must be a number from 0 on, got {value}")
    return after


def changed_cluster_policy(before: Ipolicy, given: Mapping[str, object]) -> Ipolicy:
    """The policy with these parts; of `std` the given sizes.

    Raises: PrerequisiteError: an unknown part, a wrong value, or a standard size outside of all ranges.
    """
    _check_parts(given, _OF_CLUSTER, "the instance policy")
    std = given.get("std", {})
    if not isinstance(std, dict):
        raise wrong_input("the standard size of an instance policy is an object")
    after = _decoded({**to_json(before), **given, "std": {**to_json(before.std), **std}}, Ipolicy)
    if not after.minmax:
        raise wrong_input("an instance policy needs a range of sizes")
    if not after.disk_templates:
        raise wrong_input("an instance policy needs a disk template")
    _check_ranges(after.minmax)
    if not any(_lies_in(after.std, sizes, _SIZES) for sizes in after.minmax):
        raise wrong_input("the standard size of the instance policy lies in none of its ranges")
    for name in _RATIOS:
        if not 0 < getattr(after, name) < float("inf"):
            raise wrong_input(f"'{_word(name)}' must be a number above 0, got {getattr(after, name)}")
    return after


def _check_parts(given: Iterable[str], known: Collection[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise wrong_input(f"{what} has no part '{name:.40}'; known are {', '.join(known)}")


def _decoded(parts: Mapping[str, object], kind: type[P]) -> P:
    try:
        return decode_object(parts, kind, "instance policy")
    except InvalidRequest as error:
        raise wrong_input(error.message) from error


def _check_ranges(ranges: Iterable[MinMax]) -> None:
    for sizes in ranges:
        for name in _SIZES:
            least, most = getattr(sizes.min, name), getattr(sizes.max, name)
            if not 0 <= least <= most:
                raise wrong_input(f"instances cannot have a '{_word(name)}' from {least} to {most}")


def _word(field: str) -> str:
    return field.replace("_", "-")


# Instances that do not keep to the policy of their group.


def new_violations(config: ConfigIndex, group: NodeGroup, after: PartialIpolicy) -> Sequence[str]:
    """The names of the group's instances that keep to its policy now, and will not keep to the changed one."""
    return _new(config, group, _policy_of(config.cluster.ipolicy, after))


def new_cluster_violations(config: ConfigIndex, after: Ipolicy) -> Sequence[str]:
    """The names of all instances that keep to their groups' policies now, and will not after this of the cluster."""
    return [name for group in config.groups for name in _new(config, group, _policy_of(after, group.ipolicy))]


def _policy_of(cluster: Ipolicy, own: PartialIpolicy) -> Ipolicy:
    """A group's policy, with the cluster's for what it lacks; `std` is always the cluster's."""
    return filled(cluster, attrs.evolve(own, std=None))


def _new(config: ConfigIndex, group: NodeGroup, then: Ipolicy) -> Sequence[str]:
    now = _policy_of(config.cluster.ipolicy, group.ipolicy)
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
    return any(all(_lies_in(each, limits, _sizes_of(each)) for each in sizes or [size]) for limits in policy.minmax)


def _sizes_of(size: Ispec) -> Sequence[str]:
    return _SIZES if size.disk_size else [name for name in _SIZES if name != "disk_size"]


def _lies_in(size: Ispec, limits: MinMax, names: Iterable[str]) -> bool:
    return all(getattr(limits.min, name) <= getattr(size, name) <= getattr(limits.max, name) for name in names)

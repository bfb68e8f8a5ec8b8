"""Values that several kinds of objects have: parameters, instance policies, states of hypervisors and disks. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest, PrerequisiteError
from common.objects.codec import decode_object, to_json
from common.objects.config import AnyInstance, Ipolicy, Ispec, MinMax, NodeGroup, Params, PartialIpolicy, filled
from common.objects.index import ConfigIndex
from common.objects.kinds import DiskTemplate, Hypervisor
from common.wire import read_mebibytes

# Changes of typed parameters: values come as JSON, or as text from a command line. Pure.
#
# Source: wconfd.md 7.3, "Parameter groups"; cli.md.


# value that ends a parameter of one's own, so that the inherited one is in force
DEFAULT: Final = "default"
_TRUE: Final = ("true", "yes", "1")
_FALSE: Final = ("false", "no", "0")

# function: given value -> value; raises TypeError or ValueError
Reader = Callable[[object], object]


def changes_of(given: Mapping[str, object], readers: Mapping[str, Reader], what: str) -> dict[str, object]:
    """The given values by their parameters; None: the parameter is to be the inherited one.

    Args:
        readers: by the names of the known parameters.
        what: kind of parameters, for errors.
    Raises: PrerequisiteError: an unknown name or a wrong value.
    """
    changes: dict[str, object] = {}
    for name, value in given.items():
        read = readers.get(name)
        if read is None:
            known = f"known are {', '.join(readers)}" if readers else "there are none"
            raise PrerequisiteError(f"there is no {what} '{name:.40}'; {known}", "wrong_input")
        changes[name] = None if value == DEFAULT else _read(read, name, value, what)
    return changes


def changed(before: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Own parameters after these changes."""
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


def _read(read: Reader, name: str, value: object, what: str) -> object:
    try:
        return read(value)
    except (TypeError, ValueError):
        text = f"the {what} '{name}' cannot be {value!r:.60}: {_EXPECTED[read]} is expected"
        raise PrerequisiteError(text, "wrong_input") from None


def text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    return int(value)


def number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    read = float(value)
    if not 0 <= read < float("inf"):
        raise ValueError
    return read


def mebibytes(value: object) -> int:
    return read_mebibytes(value)


def truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = text(value).lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError
    return word in _TRUE


_EXPECTED: Final[Mapping[Reader, str]] = {
    text: "text",
    whole: "a whole number",
    truth: "true or false",
    number: "a number from 0 on",
    mebibytes: "a size in MiB, or with a unit such as '2g',",
}


# Changing the parameters of disks, which each disk template has its own of. Pure.
#
# Source: Ganeti's `gnt-group info` (seen); wconfd.md 7.3.


_READERS: Final[Mapping[DiskTemplate, Mapping[str, Reader]]] = {
    DiskTemplate.DRBD: {
        "resync-rate": whole,
        "data-stripes": whole,
        "meta-stripes": whole,
        "disk-barriers": text,
        "meta-barriers": truth,
        "metavg": text,
        "disk-custom": text,
        "net-custom": text,
        "protocol": text,
        "dynamic-resync": truth,
        "c-plan-ahead": whole,
        "c-fill-target": whole,
        "c-delay-target": whole,
        "c-max-rate": whole,
        "c-min-rate": whole,
    },
    DiskTemplate.PLAIN: {"stripes": whole},
    DiskTemplate.RBD: {"pool": text, "access": text},
    DiskTemplate.EXT: {"access": text},
    DiskTemplate.GLUSTER: {"access": text, "host": text, "port": whole, "volume": text},
}


# parameter with few words -> these words
_WORDS: Final = {"access": ("userspace", "kernelspace")}


def changed_disk_parameters(
    before: Mapping[DiskTemplate, Params], given: Mapping[DiskTemplate, Params]
) -> Mapping[DiskTemplate, Params]:
    """Own parameters with these changes, by disk template.

    Raises: PrerequisiteError: an unknown name or a wrong value.
    """
    after = dict(before)
    for template, values in given.items():
        changes = changes_of(values, _READERS.get(template, {}), f"disk parameter of '{template.value}'")
        _check_words(changes)
        after[template] = changed(before.get(template, {}), changes)
    return after


def _check_words(changes: Params) -> None:
    for name, words in _WORDS.items():
        if changes.get(name, words[0]) not in (*words, None):
            raise PrerequisiteError(f"'{name}' must be {' or '.join(words)}, got {changes[name]!r:.60}", "wrong_input")


# Changing the instance policy of a group. Pure.
#
# Source: wconfd.md 7.3, "Parameter groups"; Ganeti's `gnt-group modify` (seen).


_KNOWN: Final = ("minmax", "disk-templates", "vcpu-ratio", "spindle-ratio")
_RATIOS: Final = ("vcpu_ratio", "spindle_ratio")


def changed_group_policy(before: PartialIpolicy, given: Mapping[str, object]) -> PartialIpolicy:
    """The group's own policy with these changes; 'default' makes a part the cluster's again.

    Raises: PrerequisiteError: an unknown part, a wrong value, or sizes of which the least exceeds the most.
    """
    if not given:
        # a policy that was set elsewhere is not judged
        return before
    parts = to_json(before)
    for name, value in given.items():
        if name not in _KNOWN:
            raise PrerequisiteError(
                f"the instance policy of a group has no part '{name:.40}'; known are {', '.join(_KNOWN)}", "wrong_input"
            )
        if value in (DEFAULT, [DEFAULT]):
            parts.pop(name, None)
        else:
            parts[name] = value
    try:
        after = decode_object(parts, PartialIpolicy, "instance policy")
    except InvalidRequest as error:
        raise PrerequisiteError(error.message, "wrong_input") from error
    _check(after)
    return after


def _check(policy: PartialIpolicy) -> None:
    if policy.minmax is not None and not policy.minmax:
        raise PrerequisiteError("an instance policy needs a range of sizes, or 'default'", "wrong_input")
    for sizes in policy.minmax or ():
        _check_range(sizes)
    if policy.disk_templates is not None and not policy.disk_templates:
        raise PrerequisiteError("an instance policy needs a disk template, or 'default'", "wrong_input")
    for name in _RATIOS:
        value = getattr(policy, name)
        if value is not None and not 0 <= value < float("inf"):
            raise PrerequisiteError(
                f"'{name.replace('_', '-')}' must be a number from 0 on, got {value}", "wrong_input"
            )


def _check_range(sizes: MinMax) -> None:
    for field in attrs.fields(Ispec):
        least, most = getattr(sizes.min, field.name), getattr(sizes.max, field.name)
        if not 0 <= least <= most:
            raise PrerequisiteError(
                f"instances cannot have a '{field.name.replace('_', '-')}' from {least} to {most}", "wrong_input"
            )


# Changing the static states of hypervisors and of disks, which are kept and, as in Ganeti, not used. Pure.
#
# Source: Ganeti's `gnt-group modify` (seen).


_OF_HYPERVISORS: Final[Mapping[str, Reader]] = dict.fromkeys(
    ("mem_total", "mem_node", "mem_hv", "cpu_total", "cpu_node"), whole
)
_OF_DISKS: Final[Mapping[str, Reader]] = dict.fromkeys(("disk_total", "disk_reserved", "disk_overhead"), whole)
# storage types that have a state
_STORAGE: Final = ("plain",)


def changed_hv_state(before: Params, given: Params) -> Params:
    """The state by hypervisor, with these changes. Raises: PrerequisiteError."""
    _check_keys(given, [each.value for each in Hypervisor], "hypervisor")
    return {**before, **_changed_each(before, given, _OF_HYPERVISORS, "state of a hypervisor")}


def changed_disk_state(before: Params, given: Params) -> Params:
    """The state by storage type and name, with these changes. Raises: PrerequisiteError."""
    _check_keys(given, _STORAGE, "storage type with a state")
    changes = {
        kind: {**_object(before.get(kind)), **_changed_each(_object(before.get(kind)), _object(names), _OF_DISKS, what)}
        for kind, names in given.items()
        for what in [f"state of '{kind}'"]
    }
    return {**before, **changes}


def _changed_each(before: Params, given: Params, readers: Mapping[str, Reader], what: str) -> dict[str, object]:
    return {
        name: changed(_object(before.get(name)), changes_of(_object(values), readers, what))
        for name, values in given.items()
    }


def _check_keys(given: Params, known: Collection[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise PrerequisiteError(f"there is no {what} '{name:.40}'; known are {', '.join(known)}", "wrong_input")


def _object(value: object) -> Params:
    """Raises: PrerequisiteError: the value is no object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PrerequisiteError(f"a state is written as an object, not as {value!r:.60}", "wrong_input")
    return value


# Instances that do not keep to the instance policy of their group. Pure.
#
# Source: wconfd.md 7.3; DESIGN section 7.


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

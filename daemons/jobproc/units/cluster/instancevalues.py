"""What all instances and nodes of the cluster inherit: resources, interfaces, policy, parameters. Pure.

Source: opcodes.md 4, CLUSTER_SET_PARAMS; wconfd.md 7.3, "Parameter groups".
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import attrs

from common.errors import InvalidRequest, PrerequisiteError
from common.objects.cluster import Cluster
from common.objects.codec import decode_object, to_json
from common.objects.index import ConfigIndex
from common.objects.ipolicy import Ipolicy, Ispec, MinMax
from common.objects.kinds import NicMode
from common.objects.params import BeParams, NdParams, NicParams, filled
from common.opcodes.cluster import OpClusterSetParams
from common.opcodes.structures import NicParams as AskedNic
from daemons.jobproc.units.values.readers import Reader, changes_of, mebibytes, number, text, truth, whole

F = TypeVar("F", BeParams, NdParams)
# name of the only profile of parameters
PROFILE: Final = "default"
_NICS: Final = ("mode", "link", "vlan")
_POLICY: Final = ("minmax", "std", "disk-templates", "vcpu-ratio", "spindle-ratio")


_BE: Final[Mapping[str, Reader]] = {
    "minmem": mebibytes,
    "maxmem": mebibytes,
    "vcpus": whole,
    "auto_balance": truth,
    "always_failover": truth,
    "spindle_use": whole,
}
_ND: Final[Mapping[str, Reader]] = {
    "oob_program": text,
    "spindle_count": whole,
    "exclusive_storage": truth,
    "ovs": truth,
    "ovs_name": text,
    "ovs_link": text,
    "ssh_port": whole,
    "cpu_speed": number,
}


def with_inherited(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex) -> Cluster:
    """The cluster with the parameters of the opcode that objects inherit. Raises: PrerequisiteError."""
    if op.beparams:
        cluster = attrs.evolve(cluster, beparams={**cluster.beparams, PROFILE: _resources(cluster, op.beparams)})
    if op.nicparams and op.nicparams != AskedNic():
        after = _interfaces(cluster, op.nicparams)
        _check_interfaces(config, after)
        cluster = attrs.evolve(cluster, nicparams={**cluster.nicparams, PROFILE: after})
    if op.ndparams:
        changes = _without_defaults(changes_of(op.ndparams, _ND, "node parameter"), "ndparams")
        cluster = attrs.evolve(cluster, ndparams=_evolved(cluster.ndparams, changes))
    if op.ipolicy:
        cluster = attrs.evolve(cluster, ipolicy=changed_policy(cluster.ipolicy, op.ipolicy))
    return cluster


def _resources(cluster: Cluster, given: Mapping[str, object]) -> BeParams:
    # the old name of both
    both = {"minmem": given["memory"], "maxmem": given["memory"]} if "memory" in given else {}
    wanted = {**both, **{name: value for name, value in given.items() if name != "memory"}}
    changes = _without_defaults(changes_of(wanted, _BE, "parameter of instances"), "beparams")
    after = _evolved(cluster.beparams[PROFILE], changes)
    if after.minmem > after.maxmem:
        raise _wrong(f"'minmem' ({after.minmem}) must not exceed 'maxmem' ({after.maxmem})")
    for name in ("vcpus", "spindle_use"):
        if getattr(after, name) < 1:
            raise _wrong(f"'{name}' must be at least 1, got {getattr(after, name)}")
    return after


def _interfaces(cluster: Cluster, given: AskedNic) -> NicParams:
    named = {field.name: value for field in attrs.fields(AskedNic) if (value := getattr(given, field.name)) is not None}
    if foreign := [name for name in named if name not in _NICS]:
        raise _wrong(f"interfaces of the cluster have no parameter '{foreign[0]}'; known are {', '.join(_NICS)}")
    if "mode" in named:
        named["mode"] = _mode(named["mode"])
    after: NicParams = attrs.evolve(cluster.nicparams[PROFILE], **named)
    if after.mode is NicMode.BRIDGED and not after.link:
        raise _wrong("interfaces with mode 'bridged' need a link")
    return after


def _mode(value: str) -> NicMode:
    known = [mode for mode in NicMode if mode is not NicMode.POOL]
    for mode in known:
        if mode.value == value:
            return mode
    raise _wrong(f"there is no mode '{value:.40}' of interfaces; known are {', '.join(mode.value for mode in known)}")


def _check_interfaces(config: ConfigIndex, default: NicParams) -> None:
    """Raises: PrerequisiteError: an interface that inherits the mode would be routed, and has no address."""
    for instance in config.instances:
        for place, nic in enumerate(instance.nics):
            if nic.network is None and not nic.ip and filled(default, nic.nicparams).mode is NicMode.ROUTED:
                raise PrerequisiteError(
                    f"interface {place} of instance '{instance.name}' has no address, which mode 'routed' needs"
                )


def changed_policy(before: Ipolicy, given: Mapping[str, object]) -> Ipolicy:
    """The policy with these parts; of `std` the given sizes.

    Raises: PrerequisiteError: an unknown part, a wrong value, or a standard size outside of all ranges.
    """
    if unknown := [name for name in given if name not in _POLICY]:
        raise _wrong(f"the instance policy has no part '{unknown[0]:.40}'; known are {', '.join(_POLICY)}")
    parts = to_json(before)
    std = given.get("std", {})
    if not isinstance(std, dict):
        raise _wrong("the standard size of an instance policy is an object")
    merged = {**parts, **given, "std": {**to_json(before.std), **std}}
    try:
        after = decode_object(merged, Ipolicy, "instance policy")
    except InvalidRequest as error:
        raise _wrong(error.message) from error
    _check_policy(after)
    return after


def _check_policy(policy: Ipolicy) -> None:
    if not policy.minmax:
        raise _wrong("an instance policy needs a range of sizes")
    if not policy.disk_templates:
        raise _wrong("an instance policy needs a disk template")
    for sizes in policy.minmax:
        for name in _sizes():
            least, most = getattr(sizes.min, name), getattr(sizes.max, name)
            if not 0 <= least <= most:
                raise _wrong(f"instances cannot have a '{name.replace('_', '-')}' from {least} to {most}")
    if not any(_lies_in(policy.std, sizes) for sizes in policy.minmax):
        raise _wrong("the standard size of the instance policy lies in none of its ranges")
    for name in ("vcpu_ratio", "spindle_ratio"):
        if not 0 < getattr(policy, name) < float("inf"):
            raise _wrong(f"'{name.replace('_', '-')}' must be a number above 0, got {getattr(policy, name)}")


def _lies_in(size: Ispec, limits: MinMax) -> bool:
    return all(getattr(limits.min, name) <= getattr(size, name) <= getattr(limits.max, name) for name in _sizes())


def _sizes() -> list[str]:
    return [field.name for field in attrs.fields(Ispec)]


def _evolved(full: F, changes: Mapping[str, object]) -> F:
    """The group of parameters with these values, which readers have given their types."""
    return attrs.evolve(full, **changes)  # type: ignore[arg-type]


def _without_defaults(changes: Mapping[str, object | None], what: str) -> dict[str, object]:
    """Raises: PrerequisiteError: 'default' is for objects that inherit, and the cluster does not."""
    for name, value in changes.items():
        if value is None:
            raise _wrong(f"'{name}' in '{what}' cannot be 'default': the cluster's value is the default")
    return {name: value for name, value in changes.items() if value is not None}


def _wrong(message: str) -> PrerequisiteError:
    return PrerequisiteError(message, "wrong_input")

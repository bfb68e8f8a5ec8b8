"""Hypervisors of the cluster, and their parameters: what is enabled, for all instances and for operating systems. Pure.

A hypervisor that is enabled for the first time gets Ganeti's parameters. Whether nodes have it, is not asked.

Source: opcodes.md 4, CLUSTER_SET_PARAMS; wconfd.md 7.3 and 7.6.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import PrerequisiteError
from common.objects.cluster import Cluster
from common.objects.entity import Params
from common.objects.index import ConfigIndex
from common.objects.kinds import Hypervisor
from common.opcodes.cluster import OpClusterSetParams
from daemons.jobproc.units.cluster.hypervisordefaults import DEFAULTS
from daemons.jobproc.units.values.readers import Reader, changes_of, text, truth, whole

_BY_TYPE: Final[Mapping[type, Reader]] = {bool: truth, int: whole, str: text}
_HYPERVISORS: Final = tuple(each.value for each in Hypervisor)


def with_hypervisors(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex) -> Cluster:
    """The cluster with the hypervisors and the parameters of the opcode. Raises: PrerequisiteError."""
    enabled = cluster.enabled_hypervisors
    if op.enabled_hypervisors is not None:
        enabled = _enabled(cluster, op.enabled_hypervisors, config)
    params = dict(cluster.hvparams)
    for name, values in (op.hvparams or {}).items():
        hypervisor = _hypervisor(name)
        params[hypervisor] = changed_parameters(hypervisor, params.get(hypervisor, {}), values)
    # the daemon refuses a hypervisor without parameters
    params |= {each: DEFAULTS[each] for each in enabled if each not in params}
    os_params = _of_systems(cluster, op)
    return attrs.evolve(cluster, enabled_hypervisors=enabled, hvparams=params, os_hvp=os_params)


def changed_parameters(hypervisor: Hypervisor, before: Params, given: Params, *, is_full: bool = True) -> Params:
    """The parameters with these changes.

    Args: is_full: whether 'default' means Ganeti's value, and not that there is no own one.
    Raises: PrerequisiteError: an unknown name or a wrong value.
    """
    known = DEFAULTS[hypervisor]
    readers = {name: _BY_TYPE[type(value)] for name, value in known.items()}
    after = {**(known if is_full and not before else {}), **before}
    for name, value in changes_of(given, readers, f"parameter of hypervisor '{hypervisor.value}'").items():
        if value is not None:
            after[name] = value
        elif is_full:
            after[name] = known[name]
        else:
            after.pop(name, None)
    return after


def _enabled(cluster: Cluster, wanted: tuple[Hypervisor, ...], config: ConfigIndex) -> tuple[Hypervisor, ...]:
    if not wanted:
        raise PrerequisiteError("a cluster needs at least one hypervisor", "wrong_input")
    gone = set(cluster.enabled_hypervisors) - set(wanted)
    for instance in config.instances:
        if instance.hypervisor in gone:
            raise PrerequisiteError(
                f"hypervisor '{instance.hypervisor.value}' cannot be disabled: instance '{instance.name}' uses it"
            )
    return tuple(dict.fromkeys(wanted))


def _of_systems(cluster: Cluster, op: OpClusterSetParams) -> Mapping[str, Mapping[Hypervisor, Params]]:
    """The parameters by operating system; an empty set of one ends it."""
    after = {name: dict(hypervisors) for name, hypervisors in cluster.os_hvp.items()}
    for system, hypervisors in (op.os_hvp or {}).items():
        own = after.setdefault(system, {})
        for name, values in hypervisors.items():
            hypervisor = _hypervisor(name)
            if not isinstance(values, dict):
                own.pop(hypervisor, None)
                continue
            own[hypervisor] = changed_parameters(hypervisor, own.get(hypervisor, {}), values, is_full=False)
    return {name: hypervisors for name, hypervisors in after.items() if any(hypervisors.values())}


def _hypervisor(name: str) -> Hypervisor:
    try:
        return Hypervisor(name)
    except ValueError:
        known = ", ".join(_HYPERVISORS)
        raise PrerequisiteError(f"there is no hypervisor '{name:.40}'; known are {known}", "wrong_input") from None

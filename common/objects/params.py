"""The parameter groups of instances, network interfaces and nodes: full ones and partial ones.

The cluster has a full group; node groups, nodes, instances and interfaces have partial ones, whose
values override the cluster's.

Source: wconfd.md 7.3, "Parameter groups".
"""

from typing import TypeVar

import attrs
from attrs.converters import optional

from common.objects.kinds import Mebibytes, NicMode
from common.objects.numbers import plain

F = TypeVar("F", bound=attrs.AttrsInstance)


@attrs.frozen(kw_only=True)
class BeParams:
    """The resources that a hypervisor gives an instance."""

    minmem: Mebibytes
    maxmem: Mebibytes
    vcpus: int
    auto_balance: bool
    always_failover: bool
    spindle_use: int


@attrs.frozen(kw_only=True)
class PartialBeParams:
    minmem: Mebibytes | None = None
    maxmem: Mebibytes | None = None
    vcpus: int | None = None
    auto_balance: bool | None = None
    always_failover: bool | None = None
    spindle_use: int | None = None


@attrs.frozen(kw_only=True)
class NicParams:
    """How a network interface is connected."""

    mode: NicMode
    link: str
    vlan: str


@attrs.frozen(kw_only=True)
class PartialNicParams:
    mode: NicMode | None = None
    link: str | None = None
    vlan: str | None = None


@attrs.frozen(kw_only=True)
class NdParams:
    """The properties of a node."""

    oob_program: str
    spindle_count: int
    exclusive_storage: bool
    ovs: bool
    ovs_name: str
    ovs_link: str
    ssh_port: int
    cpu_speed: float = attrs.field(converter=plain)


@attrs.frozen(kw_only=True)
class PartialNdParams:
    oob_program: str | None = None
    spindle_count: int | None = None
    exclusive_storage: bool | None = None
    ovs: bool | None = None
    ovs_name: str | None = None
    ovs_link: str | None = None
    ssh_port: int | None = None
    cpu_speed: float | None = attrs.field(default=None, converter=optional(plain))


def filled(full: F, partial: attrs.AttrsInstance) -> F:
    """Return the full group with the values of the partial one where it has any."""
    given = {field.name: getattr(partial, field.name) for field in attrs.fields(type(partial))}
    changes = {name: value for name, value in given.items() if value is not None}
    return attrs.evolve(full, **changes)  # type: ignore[misc]  # the plugin does not see through the bound

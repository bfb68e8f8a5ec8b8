"""An instance: a virtual machine, or a forthcoming one.

A *forthcoming* instance reserves the place of a machine that does not exist yet: it has an id and a
serial number, and all other fields are optional.

Source: wconfd.md 7.3.
"""

from collections.abc import Mapping

import attrs

from common.objects.entity import Entity, Params, own_first
from common.objects.kinds import AdminState, AdminStateSource, DiskUuid, Hypervisor, NodeUuid
from common.objects.networks.nic import Nic
from common.objects.params import PartialBeParams


@attrs.frozen(kw_only=True, field_transformer=own_first)
class Instance(Entity):
    name: str
    primary_node: NodeUuid
    os: str
    hypervisor: Hypervisor
    hvparams: Params = attrs.Factory(dict)
    beparams: PartialBeParams = attrs.Factory(PartialBeParams)
    osparams: Mapping[str, str] = attrs.Factory(dict)
    osparams_private: Mapping[str, str] = attrs.Factory(dict)
    admin_state: AdminState
    admin_state_source: AdminStateSource
    nics: tuple[Nic, ...] = ()
    disks: tuple[DiskUuid, ...] = ()
    disks_active: bool
    network_port: int | None = None


@attrs.frozen(kw_only=True, field_transformer=own_first)
class ForthcomingInstance(Entity):
    # always true: this key marks a forthcoming instance in the file
    forthcoming: bool = True
    name: str | None = None
    primary_node: NodeUuid | None = None
    os: str | None = None
    hypervisor: Hypervisor | None = None
    hvparams: Params = attrs.Factory(dict)
    beparams: PartialBeParams = attrs.Factory(PartialBeParams)
    osparams: Mapping[str, str] = attrs.Factory(dict)
    osparams_private: Mapping[str, str] = attrs.Factory(dict)
    admin_state: AdminState | None = None
    admin_state_source: AdminStateSource | None = None
    nics: tuple[Nic, ...] = ()
    disks: tuple[DiskUuid, ...] = ()
    disks_active: bool | None = None
    network_port: int | None = None


AnyInstance = Instance | ForthcomingInstance

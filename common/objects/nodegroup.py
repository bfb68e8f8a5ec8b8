"""A node group: nodes with a common policy.

Source: wconfd.md 7.3.
"""

from collections.abc import Mapping

import attrs

from common.objects.entity import UNWRITTEN_DEFAULT, Entity, Params, own_first
from common.objects.ipolicy import PartialIpolicy
from common.objects.kinds import AllocPolicy, DiskTemplate, NetworkUuid, NodeUuid
from common.objects.params import PartialNdParams, PartialNicParams


@attrs.frozen(kw_only=True, field_transformer=own_first)
class NodeGroup(Entity):
    name: str
    # not maintained: each node's `group` decides
    members: tuple[NodeUuid, ...] = ()
    ndparams: PartialNdParams
    alloc_policy: AllocPolicy
    ipolicy: PartialIpolicy
    diskparams: Mapping[DiskTemplate, Params]
    # networks connected to the group, and the parameters of the connection
    networks: Mapping[NetworkUuid, PartialNicParams]
    hv_state_static: Params = attrs.field(factory=dict, metadata=UNWRITTEN_DEFAULT)
    disk_state_static: Params = attrs.field(factory=dict, metadata=UNWRITTEN_DEFAULT)

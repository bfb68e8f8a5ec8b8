"""A node: a machine of the cluster.

Source: wconfd.md 7.3.
"""

import attrs

from common.objects.entity import UNWRITTEN_DEFAULT, Entity, Params, own_first
from common.objects.kinds import GroupUuid
from common.objects.params import PartialNdParams


@attrs.frozen(kw_only=True, field_transformer=own_first)
class Node(Entity):
    name: str
    primary_ip: str
    secondary_ip: str
    # at most one of these three is true
    master_candidate: bool
    offline: bool
    drained: bool
    group: GroupUuid
    master_capable: bool
    vm_capable: bool
    ndparams: PartialNdParams
    powered: bool
    hv_state_static: Params = attrs.field(factory=dict, metadata=UNWRITTEN_DEFAULT)
    disk_state_static: Params = attrs.field(factory=dict, metadata=UNWRITTEN_DEFAULT)

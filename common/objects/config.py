"""The whole configuration: the content of `config.data`.

Source: wconfd.md 7.2.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.objects.cluster import Cluster
from common.objects.disk import AnyDisk
from common.objects.filter import FilterRule
from common.objects.instance import AnyInstance
from common.objects.kinds import DiskUuid, FilterUuid, GroupUuid, InstanceUuid, NetworkUuid, NodeUuid
from common.objects.networks.network import Network
from common.objects.node import Node
from common.objects.nodegroup import NodeGroup
from common.objects.numbers import plain

# version of the format: major * 1000000 + minor * 10000
CONFIG_VERSION: Final = 3_000_000


@attrs.frozen(kw_only=True)
class Config:
    version: int
    cluster: Cluster
    nodes: Mapping[NodeUuid, Node]
    nodegroups: Mapping[GroupUuid, NodeGroup]
    instances: Mapping[InstanceUuid, AnyInstance]
    networks: Mapping[NetworkUuid, Network]
    disks: Mapping[DiskUuid, AnyDisk]
    filters: Mapping[FilterUuid, FilterRule]
    ctime: float = attrs.field(default=0, converter=plain)
    mtime: float = attrs.field(default=0, converter=plain)
    # number that grows with every effective change of any object
    serial_no: int

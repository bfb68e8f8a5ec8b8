"""The table of the resources whose answer is a job.

Source: rapi.md 5 to 7.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from common.opcodes.cluster import OpClusterRedistConf, OpClusterSetParams
from common.opcodes.group import OpGroupAdd, OpGroupAssignNodes, OpGroupRemove, OpGroupRename, OpGroupSetParams
from common.opcodes.network import (
    OpNetworkAdd,
    OpNetworkConnect,
    OpNetworkDisconnect,
    OpNetworkRemove,
    OpNetworkRename,
    OpNetworkSetParams,
)
from common.opcodes.node import (
    OpNodeEvacuate,
    OpNodeMigrate,
    OpNodeModifyStorage,
    OpNodePowercycle,
    OpNodeQueryStorage,
    OpNodeSetParams,
    OpRepairNodeStorage,
)
from common.opcodes.tags import OpTagsDel, OpTagsSet
from common.query.kinds import TagKind
from daemons.rapid.ganeti.core import nodewrites
from daemons.rapid.ganeti.core.arguments import Arguments
from daemons.rapid.ganeti.core.instancetable import AN_INSTANCE, ON_INSTANCES
from daemons.rapid.ganeti.core.writes import (
    DRY_RUN,
    Body,
    FromQuery,
    Source,
    Write,
    constant,
    flag,
    name,
    named,
    required,
    text,
)

_A_NODE: Final = "/2/nodes/{name:name}"
_A_GROUP: Final = "/2/groups/{name:name}"
_A_NETWORK: Final = "/2/networks/{name:name}"
# path of the object that the tags belong to; the cluster has none of its own
TAGGED: Final[Mapping[str, TagKind]] = {
    "/2": TagKind.CLUSTER,
    _A_NODE: TagKind.NODE,
    _A_GROUP: TagKind.NODEGROUP,
    _A_NETWORK: TagKind.NETWORK,
    AN_INSTANCE: TagKind.INSTANCE,
}
_NODE: Final[Mapping[str, Source]] = {"node_name": name}
_GROUP: Final[Mapping[str, Source]] = {"group_name": name}
_NETWORK: Final[Mapping[str, Source]] = {"network_name": name}


def _output_fields(arguments: Arguments) -> object:
    arguments.required("output_fields")
    return arguments.words("output_fields")


def _tags(arguments: Arguments) -> object:
    arguments.required("tag")
    return arguments.texts("tag")


_CLUSTER: Final = (
    Write("PUT", "/2/redistribute-config", OpClusterRedistConf, resource="redist_config"),
    Write(
        "PUT",
        "/2/modify",
        OpClusterSetParams,
        body=Body.REQUIRED,
        forbidden=("compression_tools",),
        resource="cluster_modify",
    ),
)
_ON_NODES: Final = (
    Write(
        "PUT",
        f"{_A_NODE}/role",
        OpNodeSetParams,
        {**_NODE, "force": flag("force"), "auto_promote": flag("auto-promote")},
        make=nodewrites.set_role,
    ),
    Write("POST", f"{_A_NODE}/modify", OpNodeSetParams, _NODE),
    Write("POST", f"{_A_NODE}/powercycle", OpNodePowercycle, {**_NODE, "force": flag("force")}),
    Write("POST", f"{_A_NODE}/evacuate", OpNodeEvacuate, {**_NODE, **DRY_RUN}),
    Write(
        "POST", f"{_A_NODE}/migrate", OpNodeMigrate, _NODE, make=nodewrites.migrate, more_parameters=("live", "mode")
    ),
    Write(
        "GET",
        f"{_A_NODE}/storage",
        OpNodeQueryStorage,
        {
            "nodes": named,
            "storage_type": text("storage_type"),
            "output_fields": FromQuery("output_fields", _output_fields, is_required=True),
        },
        body=Body.IGNORED,
    ),
    Write(
        "PUT",
        f"{_A_NODE}/storage/modify",
        OpNodeModifyStorage,
        {
            **_NODE,
            "storage_type": required("storage_type"),
            "name": required("name"),
            "changes": FromQuery("allocatable", nodewrites.storage_changes),
        },
        body=Body.IGNORED,
    ),
    Write(
        "PUT",
        f"{_A_NODE}/storage/repair",
        OpRepairNodeStorage,
        {**_NODE, "storage_type": required("storage_type"), "name": required("name")},
        body=Body.IGNORED,
    ),
)
_ON_GROUPS: Final = (
    Write("POST", "/2/groups", OpGroupAdd, DRY_RUN, renames={"name": "group_name"}),
    Write("DELETE", _A_GROUP, OpGroupRemove, {**_GROUP, **DRY_RUN}, body=Body.IGNORED),
    Write(
        "PUT",
        f"{_A_GROUP}/modify",
        OpGroupSetParams,
        _GROUP,
        renames={
            "custom_ndparams": "ndparams",
            "custom_ipolicy": "ipolicy",
            "custom_diskparams": "diskparams",
        },
    ),
    Write("PUT", f"{_A_GROUP}/rename", OpGroupRename, {**_GROUP, **DRY_RUN}),
    Write(
        "PUT",
        f"{_A_GROUP}/assign-nodes",
        OpGroupAssignNodes,
        {**_GROUP, **DRY_RUN, "force": flag("force")},
    ),
)
_ON_NETWORKS: Final = (
    Write("POST", "/2/networks", OpNetworkAdd, DRY_RUN, renames={"name": "network_name"}),
    Write("DELETE", _A_NETWORK, OpNetworkRemove, {**_NETWORK, **DRY_RUN}),
    Write("PUT", f"{_A_NETWORK}/connect", OpNetworkConnect, {**_NETWORK, **DRY_RUN}),
    Write("PUT", f"{_A_NETWORK}/disconnect", OpNetworkDisconnect, {**_NETWORK, **DRY_RUN}),
    Write("PUT", f"{_A_NETWORK}/modify", OpNetworkSetParams, _NETWORK),
    Write("PUT", f"{_A_NETWORK}/rename", OpNetworkRename, {**_NETWORK, **DRY_RUN}),
)


def _tag_writes() -> Iterator[Write]:
    for path, kind in TAGGED.items():
        fixed: dict[str, Source] = {
            "kind": constant(kind.value),
            "name": constant(None) if kind is TagKind.CLUSTER else name,
            "tags": FromQuery("tag", _tags, is_required=True),
            **DRY_RUN,
        }
        yield Write("PUT", f"{path}/tags", OpTagsSet, fixed, body=Body.IGNORED)
        yield Write("DELETE", f"{path}/tags", OpTagsDel, fixed, body=Body.IGNORED)


WRITES: Final = (
    *_CLUSTER,
    *_tag_writes(),
    *_ON_NODES,
    *_ON_GROUPS,
    *_ON_NETWORKS,
    *ON_INSTANCES,
)

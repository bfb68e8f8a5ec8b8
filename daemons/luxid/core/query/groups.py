"""The fields of node groups.

Source: luxid.md 7.6, "group".
"""

from collections.abc import Mapping
from typing import Final

from common.objects.codec import to_json
from common.objects.nodegroup import NodeGroup
from common.objects.params import NdParams, filled
from daemons.luxid.core.query.engine import Things
from daemons.luxid.core.query.entities import entity_fields, nd_param_fields
from daemons.luxid.core.query.fields import Kind, QueryField
from daemons.luxid.core.query.rows import Row

GroupRow = Row[NodeGroup]
_Field = QueryField[GroupRow]


def _nd_params(row: GroupRow) -> NdParams:
    return filled(row.config.config.cluster.ndparams, row.object.ndparams)


def _ipolicy(row: GroupRow) -> dict[str, object]:
    """The group's policy, with the cluster's for what it lacks."""
    policy, own = row.config.config.cluster.ipolicy, row.object.ipolicy
    std = {**to_json(policy.std), **(to_json(own.std) if own.std is not None else {})}
    return {**to_json(policy), **to_json(own), "std": std}


def _disk_params(row: GroupRow) -> dict[str, object]:
    own = _own_disk_params(row)
    of_cluster = row.config.config.cluster.diskparams
    return {each.value: {**params, **own.get(each.value, {})} for each, params in of_cluster.items()}


def _own_disk_params(row: GroupRow) -> dict[str, Mapping[str, object]]:
    return {each.value: params for each, params in row.object.diskparams.items()}


def _node_names(row: GroupRow) -> list[str]:
    return [node.name for node in row.config.group_nodes(row.object.uuid)]


def _instance_names(row: GroupRow) -> list[str]:
    nodes = row.config.group_nodes(row.object.uuid)
    return [name for node in nodes for name in row.config.primaries(node.uuid)]


_CONFIGURED: Final[tuple[_Field, ...]] = (
    _Field("name", "Group", Kind.TEXT, "name of the group", lambda row: row.object.name),
    _Field(
        "alloc_policy",
        "AllocPolicy",
        Kind.TEXT,
        "whether new instances may be placed here",
        lambda row: row.object.alloc_policy.value,
    ),
    _Field("custom_diskparams", "CustomDiskParameters", Kind.OTHER, "disk parameters of its own", _own_disk_params),
    _Field(
        "custom_ipolicy",
        "CustomInstancePolicy",
        Kind.OTHER,
        "instance policy of its own",
        lambda row: to_json(row.object.ipolicy),
    ),
    _Field(
        "custom_ndparams",
        "CustomNDParams",
        Kind.OTHER,
        "node parameters of its own",
        lambda row: to_json(row.object.ndparams),
    ),
    _Field("diskparams", "DiskParameters", Kind.OTHER, "disk parameters, with the cluster's", _disk_params),
    _Field("ipolicy", "InstancePolicy", Kind.OTHER, "instance policy, with the cluster's", _ipolicy),
    _Field(
        "ndparams", "NDParams", Kind.OTHER, "node parameters, with the cluster's", lambda row: to_json(_nd_params(row))
    ),
    _Field("node_cnt", "Nodes", Kind.NUMBER, "number of nodes", lambda row: len(_node_names(row))),
    _Field("node_list", "NodeList", Kind.OTHER, "its nodes", _node_names),
    _Field(
        "pinst_cnt",
        "Instances",
        Kind.NUMBER,
        "number of instances whose primary node is in the group",
        lambda row: len(_instance_names(row)),
    ),
    _Field("pinst_list", "InstanceList", Kind.OTHER, "instances whose primary node is in the group", _instance_names),
)

GROUPS: Final[Things[GroupRow]] = Things.of(
    "node group", (*_CONFIGURED, *nd_param_fields(_nd_params), *entity_fields("node group")), name_field="name"
)

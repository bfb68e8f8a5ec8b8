"""Changes of single objects of the configuration.

While an owner holds `cluster/config` they change nothing and return false, or null where they return
a value; the client tries again. Changes of filter rules and limits wait some seconds instead, and then fail.

Source: wconfd.md 2.3; the filter rules' are ours.
"""

from collections.abc import Mapping
from typing import Self

import attrs

from common.conditions import Condition
from common.ids import JobId
from common.locks import Owner
from common.objects.filter import FilterRule
from common.objects.kinds import AdminState, AdminStateSource, GroupUuid, NetworkUuid, NodeUuid, TagKind
from common.queue.reasons import ReasonTrail
from common.shapes import JsonObject
from protocol.messages import Request
from protocol.wconfd.locks import Unit

# (serial number, mtime) of an object after a change
Stamp = tuple[int, float]


@attrs.frozen
class AddInstance(Request[bool]):
    """Add an instance, or replace it; the owner's reserved addresses are committed."""

    METHOD = "addInstance"
    instance: JsonObject
    owner: Owner
    replace: bool


@attrs.frozen
class AddInstanceDisk(Request[bool]):
    """Add a disk, or replace it, and attach it."""

    METHOD = "addInstanceDisk"
    instance: str
    disk: JsonObject
    # place among the instance's disks; null: the last one
    index: int | None
    replace: bool


@attrs.frozen
class AttachInstanceDisk(Request[bool]):
    METHOD = "attachInstanceDisk"
    instance: str
    disk: str
    index: int | None


@attrs.frozen
class DetachInstanceDisk(Request[bool]):
    """Detach a disk from an instance; it stays in the configuration."""

    METHOD = "detachInstanceDisk"
    instance: str
    disk: str


@attrs.frozen
class RemoveInstanceDisk(Request[bool]):
    """Detach a disk from an instance, and delete it."""

    METHOD = "removeInstanceDisk"
    instance: str
    disk: str


@attrs.frozen
class RemoveInstance(Request[bool]):
    """Delete an instance, and free its port and addresses; its disks stay."""

    METHOD = "removeInstance"
    instance: str


@attrs.frozen
class SetInstanceStatus(Request[JsonObject | None]):
    """Set the values that are not null; returns the instance."""

    METHOD = "setInstanceStatus"
    instance: str
    admin_state: AdminState | None
    disks_active: bool | None
    admin_state_source: AdminStateSource | None


@attrs.frozen
class SetInstancePrimaryNode(Request[bool]):
    METHOD = "setInstancePrimaryNode"
    instance: str
    node: str


@attrs.frozen
class AllocatePort(Request[int | None]):
    """Take a free TCP or UDP port."""

    METHOD = "allocatePort"


@attrs.frozen
class AddTcpUdpPort(Request[bool]):
    """Return a port to the pool."""

    METHOD = "addTcpUdpPort"
    port: int


@attrs.frozen
class UpdateCluster(Request[Stamp | None]):
    """Replace the object if its serial number is still the given one."""

    METHOD = "updateCluster"
    object: JsonObject


@attrs.frozen
class UpdateNode(Request[Stamp | None]):
    METHOD = "updateNode"
    object: JsonObject


@attrs.frozen
class UpdateInstance(Request[Stamp | None]):
    METHOD = "updateInstance"
    object: JsonObject


@attrs.frozen
class UpdateNodeGroup(Request[Stamp | None]):
    METHOD = "updateNodeGroup"
    object: JsonObject


@attrs.frozen
class UpdateNetwork(Request[Stamp | None]):
    METHOD = "updateNetwork"
    object: JsonObject


@attrs.frozen
class UpdateDisk(Request[Stamp | None]):
    METHOD = "updateDisk"
    object: JsonObject


# calls that replace an object; a second delivery is recognized
UpdateCall = UpdateCluster | UpdateNode | UpdateInstance | UpdateNodeGroup | UpdateNetwork | UpdateDisk


@attrs.frozen
class ReplaceFilterRule(Request[str]):
    """Add a filter rule, or replace the one with this uuid; returns the uuid."""

    METHOD = "replaceFilter"
    # null: a new rule
    uuid: str | None
    priority: int
    predicates: tuple[object, ...]
    action: object
    reason_trail: ReasonTrail
    watermark: JobId
    # what must hold of the rule before; null: nothing
    condition: Condition | None = None

    @classmethod
    def of(cls, rule: FilterRule, condition: Condition | None = None) -> Self:
        return cls(rule.uuid, rule.priority, rule.predicates, rule.action, rule.reason_trail, rule.watermark, condition)


@attrs.frozen
class DeleteFilterRule(Request[bool]):
    """Delete a filter rule; returns true also if there is none."""

    METHOD = "deleteFilter"
    uuid: str
    # as for `ReplaceFilterRule`, if there is one
    condition: Condition | None = None


@attrs.frozen
class ChangeJobLimits(Request[bool]):
    """Change how many jobs may run, and be tracked; null leaves a limit unchanged."""

    METHOD = "setJobLimits"
    max_running_jobs: int | None
    max_tracked_jobs: int | None


@attrs.frozen
class PrepareClusterDestruction(Request[Unit]):
    """Take the BGL from its exclusive holder, for ever, and leave the cluster without a master."""

    METHOD = "prepareClusterDestruction"
    owner: Owner


# Changes of the cluster's parameters; ours.
#
# Source: wconfd.md 2.3 and 7.3.


@attrs.frozen(kw_only=True)
class ChangeCluster(Request[Stamp | None]):
    """Set some values of the cluster, and leave all others: ports are taken and freed without its serial number.

    Returns serial number and time of the cluster after the change; null, and nothing is changed, while an owner holds
    `cluster/config`.
    """

    METHOD = "changeCluster"
    # key of the cluster -> value; null: none
    values: JsonObject
    # serial number of the cluster when it was read
    serial_no: int


# Changes of the set of node groups; ours.
#
# Source: opcodes.md 4, GROUP_ADD to GROUP_RENAME.


@attrs.frozen(kw_only=True)
class ChangeGroups(Request[Stamp | None]):
    """Add, replace and remove node groups in one change; nodes are put into groups by `ChangeNodes`.

    Returns serial number and time of the configuration after the change; null, and nothing is changed, while an owner
    holds `cluster/config`.
    """

    METHOD = "changeGroups"
    # groups as they should be: a known one with the serial number of its reading, a new one with 0
    groups: tuple[JsonObject, ...]
    # uuids of groups to remove
    removed: tuple[GroupUuid, ...]


# Changes of the set of networks and of their values; ours.
#
# Source: wconfd.md 2.4; opcodes.md 4.


@attrs.frozen(kw_only=True)
class ChangeNetworks(Request[Stamp | None]):
    """Add, replace and remove networks in one change.

    What instances have taken of a known network's pool stays as it is, whatever is given: it changes with instances
    alone. Returns serial number and time of the configuration after the change; null, and nothing is changed, while an
    owner holds `cluster/config`.
    """

    METHOD = "changeNetworks"
    # networks as they should be: a known one with the serial number of its reading, a new one with 0
    networks: tuple[JsonObject, ...]
    # uuids of networks to remove
    removed: tuple[NetworkUuid, ...]


# Changes of the set of nodes and of their roles; ours.
#
# Source: DESIGN section 13; noded.md 3.


@attrs.frozen(kw_only=True)
class ChangeNodes(Request[Stamp | None]):
    """Add, replace and remove nodes in one change; the certificates of candidates follow from the roles.

    Nodes that are no candidates afterwards lose their certificates. Returns serial number and time of the configuration
    after the change; null, and nothing is changed, while an owner holds `cluster/config`.
    """

    METHOD = "changeNodes"
    # nodes as they should be: a known one with the serial number of its reading, a new one with 0
    nodes: tuple[JsonObject, ...]
    # uuids of nodes to remove
    removed: tuple[NodeUuid, ...]
    # node -> digest of its certificate; at least for every node that becomes a candidate
    certificates: Mapping[NodeUuid, str]
    # whether fewer candidates may be left than the pool should have
    may_fall_short: bool
    # new size of the candidate pool; null: as it is
    candidate_pool_size: int | None = None


# Changes of tags; ours.
#
# Source: opcodes.md 4, TAGS_SET and TAGS_DEL.


@attrs.frozen(kw_only=True)
class ChangeTags(Request[bool]):
    """Add tags to an object and remove tags from it; those that it has, or lacks, already are left as they are.

    Returns false, and nothing is changed, while an owner holds `cluster/config`.
    """

    METHOD = "changeTags"
    kind: TagKind
    # of the object; ignored for the cluster, of which there is one
    uuid: str
    added: tuple[str, ...]
    removed: tuple[str, ...]

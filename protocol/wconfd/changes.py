"""Changes of single objects of the configuration.

While an owner holds `cluster/config` they change nothing and return false, or null where they return
a value; the client tries again. Changes of filter rules and limits wait some seconds instead, and then fail.

Source: wconfd.md 2.3; the filter rules' are ours.
"""

import attrs

from common.ids import JobId
from common.locks import Owner
from common.objects.kinds import AdminState, AdminStateSource
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
class ReplaceFilter(Request[str]):
    """Add a filter rule, or replace the one with this uuid; returns the uuid."""

    METHOD = "replaceFilter"
    # null: a new rule
    uuid: str | None
    priority: int
    predicates: tuple[object, ...]
    action: object
    reason_trail: ReasonTrail
    watermark: JobId


@attrs.frozen
class DeleteFilter(Request[bool]):
    """Delete a filter rule; returns true also if there is none."""

    METHOD = "deleteFilter"
    uuid: str


@attrs.frozen
class SetJobLimits(Request[bool]):
    """Change how many jobs may run, and be tracked; null leaves a limit unchanged."""

    METHOD = "setJobLimits"
    max_running_jobs: int | None
    max_tracked_jobs: int | None


@attrs.frozen
class PrepareClusterDestruction(Request[Unit]):
    """Take the BGL from its exclusive holder, for ever, and leave the cluster without a master."""

    METHOD = "prepareClusterDestruction"
    owner: Owner

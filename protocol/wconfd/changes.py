"""Changes of single objects of the configuration.

While anybody holds `cluster/config` they change nothing and answer false, or null where a value is
the answer; the client asks again. Changes of filter rules and limits wait some seconds instead, and fail then.

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

# an object's serial number and mtime after a change
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
    # its place among the instance's disks; null: the last one
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
    """Take a disk from an instance; it stays in the configuration."""

    METHOD = "detachInstanceDisk"
    instance: str
    disk: str


@attrs.frozen
class RemoveInstanceDisk(Request[bool]):
    """Take a disk from an instance, and delete it."""

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
    """Set what is not null; answers the instance."""

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
    """Take a TCP or UDP port that nobody has."""

    METHOD = "allocatePort"


@attrs.frozen
class AddTcpUdpPort(Request[bool]):
    """Give a port back."""

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


# what replaces an object; its second delivery is known again
UpdateCall = UpdateCluster | UpdateNode | UpdateInstance | UpdateNodeGroup | UpdateNetwork | UpdateDisk


@attrs.frozen
class ReplaceFilter(Request[str]):
    """Add a filter rule, or replace the one of this uuid; answers the uuid."""

    METHOD = "replaceFilter"
    # null: a new one
    uuid: str | None
    priority: int
    predicates: tuple[object, ...]
    action: object
    reason_trail: ReasonTrail
    watermark: JobId


@attrs.frozen
class DeleteFilter(Request[bool]):
    """Delete a filter rule; true also if there is none."""

    METHOD = "deleteFilter"
    uuid: str


@attrs.frozen
class SetJobLimits(Request[bool]):
    """Change how many jobs may run, and be followed; null leaves a limit as it is."""

    METHOD = "setJobLimits"
    max_running_jobs: int | None
    max_tracked_jobs: int | None


@attrs.frozen
class PrepareClusterDestruction(Request[Unit]):
    """Take the BGL from its exclusive holder, for ever, and let the cluster have no master."""

    METHOD = "prepareClusterDestruction"
    owner: Owner

"""The whole configuration, single objects of it, and its file.

Source: wconfd.md 2.2; `redistributeConfig`, `listNodesBehind`, `getObject`, `configStatus` and `reloadConfig` are ours.
"""

import attrs

from common.conditions import Condition
from common.locks import Owner
from common.resources import Resource
from common.schedules.schedule import Schedule, ScheduleRun
from common.shapes import JsonObject
from common.webaccess.sessions import KeptSession
from protocol.messages import Request
from protocol.wconfd.locks import Unit


@attrs.frozen
class ReadConfig(Request[JsonObject]):
    """The whole configuration, a snapshot."""

    METHOD = "readConfig"


@attrs.frozen
class VerifyConfig(Request[Unit]):
    """Check the configuration; all problems are in the error."""

    METHOD = "verifyConfig"


@attrs.frozen
class LockConfig(Request[JsonObject | None]):
    """Take `cluster/config` now, and return the configuration; null if other owners block it."""

    METHOD = "lockConfig"
    owner: Owner
    shared: bool


@attrs.frozen
class UnlockConfig(Request[Unit]):
    """Release `cluster/config` and drop the pending request; not an error if it is not held."""

    METHOD = "unlockConfig"
    owner: Owner


@attrs.frozen
class WriteConfig(Request[Unit]):
    """Replace the whole configuration; the owner must hold `cluster/config` exclusively."""

    METHOD = "writeConfig"
    owner: Owner
    config: JsonObject


@attrs.frozen
class WriteConfigAndUnlock(Request[bool]):
    """Replace the whole configuration and release its lock; false if the owner does not hold it."""

    METHOD = "writeConfigAndUnlock"
    owner: Owner
    config: JsonObject


@attrs.frozen
class FlushConfig(Request[Unit]):
    """Write the configuration and send it to all nodes, even if it has not changed."""

    METHOD = "flushConfig"


@attrs.frozen
class FlushConfigGroup(Request[Unit]):
    """As `FlushConfig`, for the nodes of one group."""

    METHOD = "flushConfigGroup"
    # uuid; an unknown one selects no nodes
    group: str


@attrs.frozen
class RedistributeConfig(Request[tuple[str, ...]]):
    """As `FlushConfig`; returns the names of the nodes that were not reached, of those that are online."""

    METHOD = "redistributeConfig"


@attrs.frozen(kw_only=True)
class NodeBehind:
    """A node that lacks the latest configuration."""

    name: str
    # file and values that it lacks: config.data, ssconf
    lacks: tuple[str, ...]
    # seconds since it had everything, or since wconfd was started
    behind_s: float
    # text of the last failure; empty: it is being sent
    reason: str = ""


@attrs.frozen
class ListNodesBehind(Request[tuple[NodeBehind, ...]]):
    """The online nodes that lack the latest configuration; none where nothing is copied."""

    METHOD = "listNodesBehind"


@attrs.frozen
class GetObject(Request[JsonObject]):
    """One object of the configuration, by its uuid, or by its name if that is unique."""

    METHOD = "getObject"
    # cluster, node, nodegroup, instance, network, disk or filter
    kind: str
    # ignored for the cluster, of which there is one
    id: str = ""


@attrs.frozen(kw_only=True)
class ConfigStatus:
    """The served configuration, and what is wrong with its file."""

    path: str
    serial_no: int
    mtime: float
    # reason why changes are refused until `reloadConfig`; null while the file is unchanged since our last write
    foreign_change: str | None = None


@attrs.frozen
class GetConfigStatus(Request[ConfigStatus]):
    METHOD = "configStatus"


@attrs.frozen
class ReloadConfig(Request[ConfigStatus]):
    """Serve the file after a change by another program; refused, with all problems, if it is unsound."""

    METHOD = "reloadConfig"


# The totals of resources; ours.
#
# Source: DESIGN section 16.


@attrs.frozen
class ReadResources(Request[tuple[Resource, ...]]):
    """All resources, those of the cluster first, by name."""

    METHOD = "readResources"


@attrs.frozen
class SetResourceTotal(Request[None]):
    """Set a total, durably; a resource of a new name comes to be by it."""

    METHOD = "setResource"
    resource: Resource
    # what must hold of it before; null: nothing
    condition: Condition | None = None


@attrs.frozen
class RemoveResourceTotal(Request[bool]):
    """Remove a resource; false if there is none. Jobs that want it wait until it is set again."""

    METHOD = "removeResource"
    node: str
    name: str
    # as for `SetResourceTotal`, if there is one
    condition: Condition | None = None


# The schedules; ours.
#
# Source: DESIGN section 16.


@attrs.frozen
class ReadSchedules(Request[tuple[Schedule, ...]]):
    """All schedules, by name."""

    METHOD = "readSchedules"


@attrs.frozen
class PutSchedule(Request[None]):
    """Add a schedule, or replace the one with its uuid, durably; runs are kept. Refused: another one has its name."""

    METHOD = "putSchedule"
    schedule: Schedule


@attrs.frozen
class RemoveSchedule(Request[bool]):
    """Remove a schedule; false if there is none."""

    METHOD = "removeSchedule"
    uuid: str


@attrs.frozen
class Settlement:
    """What became of a run."""

    # the schedule
    uuid: str
    run: ScheduleRun
    # nominal instant up to which all runs of the schedule are settled now
    settled_at: float


@attrs.frozen
class SettleRuns(Request[None]):
    """Note what became of runs, durably, in one write; said twice, it counts once.

    Schedules that are gone are passed over.
    """

    METHOD = "settleRuns"
    settlements: tuple[Settlement, ...]


# The sessions of the web page; ours. They are for rapid alone, whichever rights a caller has by its role.
#
# Source: DESIGN sections 15 and 16.


@attrs.frozen
class SessionsNow:
    # what tells this state from others
    stamp: str
    sessions: tuple[KeptSession, ...]


@attrs.frozen
class FollowSessions(Request[SessionsNow]):
    """All sessions, as soon as they are others than those with this stamp. Args: known: empty: at once."""

    METHOD = "followSessions"
    known: str


@attrs.frozen
class ChangeSessions(Request[None]):
    """Note sessions, in place of those with their keys, and forget others, durably, in one write."""

    METHOD = "changeSessions"
    noted: tuple[KeptSession, ...]
    # keys
    ended: tuple[str, ...]

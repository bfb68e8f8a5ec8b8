"""The whole configuration, single objects of it, and its file.

Source: wconfd.md 2.2; `getObject`, `configStatus` and `reloadConfig` are ours.
"""

import attrs

from common.locks import Owner
from common.shapes import JsonObject
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
    """Take `cluster/config` now, and answer the configuration; null if others are in the way."""

    METHOD = "lockConfig"
    owner: Owner
    shared: bool


@attrs.frozen
class UnlockConfig(Request[Unit]):
    """Release `cluster/config` and drop the pending request; fine if it is not held."""

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
    """Write the configuration and tell all nodes, whether it has changed or not."""

    METHOD = "flushConfig"


@attrs.frozen
class FlushConfigGroup(Request[Unit]):
    """The same, for the nodes of one group."""

    METHOD = "flushConfigGroup"
    # a uuid; an unknown one means no nodes
    group: str


@attrs.frozen
class GetObject(Request[JsonObject]):
    """One object of the configuration, by its uuid, or by its name where no other has it."""

    METHOD = "getObject"
    # cluster, node, nodegroup, instance, network, disk or filter
    kind: str
    # of the cluster there is one, whatever is given
    id: str = ""


@attrs.frozen(kw_only=True)
class ConfigStatus:
    """The configuration that is served, and what is wrong with its file."""

    path: str
    serial_no: int
    mtime: float
    # why changes are refused until `reloadConfig`; null while the file is as we left it
    foreign_change: str | None = None


@attrs.frozen
class GetConfigStatus(Request[ConfigStatus]):
    METHOD = "configStatus"


@attrs.frozen
class ReloadConfig(Request[ConfigStatus]):
    """Serve what another program put into the file; refused, with all problems, if it is unsound."""

    METHOD = "reloadConfig"

"""The cluster, as far as luxid answers for it; the facts are wconfd's.

Source: luxid.md 2.2, 2.8.
"""

import platform
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from common.paths import Paths
from common.program import release
from protocol.client import Client
from protocol.luxi import QueryClusterInfo, QueryConfigValues
from protocol.peer import Peer
from protocol.wconfd import ReadConfig

# of Ganeti 3.0, whose protocol this is
PROTOCOL_VERSION: Final = 3000000
OS_API_VERSION: Final = 20
EXPORT_VERSION: Final = 0
# while wconfd is being restarted
CONFIG_WAIT_S: Final = 5.0

# keys of the answer that are plain copies; null where the cluster object has none
# fmt: off
_COPIED: Final = (
    "enabled_hypervisors", "hvparams", "os_hvp", "beparams", "osparams", "ipolicy", "nicparams", "ndparams",
    "diskparams", "candidate_pool_size", "max_running_jobs", "max_tracked_jobs", "mac_prefix", "master_netdev",
    "master_netmask", "use_external_mip_script", "volume_group_name", "drbd_usermode_helper", "file_storage_dir",
    "shared_file_storage_dir", "gluster_storage_dir", "maintain_node_health", "ctime", "mtime", "uuid", "tags",
    "uid_pool", "default_iallocator", "default_iallocator_params", "reserved_lvs", "prealloc_wipe_disks",
    "hidden_os", "blacklisted_os", "enabled_disk_templates", "install_image", "instance_communication_network",
    "zeroing_image", "compression_tools", "enabled_user_shutdown", "enabled_data_collectors",
    "data_collector_interval", "modify_ssh_setup", "ssh_key_type", "ssh_key_bits",
)
# fmt: on


@attrs.frozen
class _Config:
    cluster: Mapping[str, Any]
    nodes: Mapping[str, Any]
    version: Any

    @property
    def master_name(self) -> str | None:
        master = self.nodes.get(str(self.cluster.get("master_node")))
        return master.get("name") if isinstance(master, dict) else None


class ClusterFacts:
    """The methods about the cluster."""

    def __init__(self, paths: Paths, wconfd: Client) -> None:
        self._paths = paths
        self._wconfd = wconfd

    async def query_config_values(self, call: QueryConfigValues, peer: Peer) -> list[Any]:
        """Raises: Unavailable: wconfd does not answer, and a value that it has is asked for."""
        config = await self._config() if any(name in _FROM_CONFIG for name in call.names) else None
        return [self._value(name, config) for name in call.names]

    async def query_cluster_info(self, call: QueryClusterInfo, peer: Peer) -> dict[str, Any]:
        """Raises: Unavailable: wconfd does not answer."""
        config = await self._config()
        cluster = config.cluster
        hypervisors = cluster.get("enabled_hypervisors") or [None]
        return {
            "software_version": release(),
            "protocol_version": PROTOCOL_VERSION,
            "config_version": config.version,
            "os_api_version": OS_API_VERSION,
            "export_version": EXPORT_VERSION,
            "vcs_version": release(),
            "architecture": ["64bits" if platform.machine().endswith("64") else "32bits", platform.machine()],
            "name": cluster.get("cluster_name"),
            "master": config.master_name,
            "default_hypervisor": hypervisors[0],
            "primary_ip_version": 6 if cluster.get("primary_ip_family") == 10 else 4,
            **{key: cluster.get(key) for key in _COPIED},
        }

    async def _config(self) -> _Config:
        config = await self._wconfd.call_retrying(ReadConfig(), CONFIG_WAIT_S)
        return _Config(config.get("cluster", {}), config.get("nodes", {}), config.get("version"))

    def _value(self, name: str, config: _Config | None) -> Any:
        if name == "drain_flag":
            return self._paths.drain_file.exists()
        if name == "watcher_pause":
            return _watcher_pause(self._paths)
        read = _FROM_CONFIG.get(name)
        return read(config) if read is not None and config is not None else None


_FROM_CONFIG: Final[Mapping[str, Callable[[_Config], Any]]] = {
    "cluster_name": lambda config: config.cluster.get("cluster_name"),
    "master_node": lambda config: config.master_name,
    "modify_ssh_setup": lambda config: config.cluster.get("modify_ssh_setup"),
    "ssh_key_type": lambda config: config.cluster.get("ssh_key_type"),
    "ssh_key_bits": lambda config: config.cluster.get("ssh_key_bits"),
}


def _watcher_pause(paths: Paths) -> int | None:
    """When the pause ends, in seconds since the epoch; None: there is none, or it is over."""
    try:
        until = int(paths.watcher_pause.read_text())
    except (OSError, ValueError):
        return None
    return until if until > time.time() else None

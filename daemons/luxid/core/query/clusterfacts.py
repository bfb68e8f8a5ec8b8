"""What QueryClusterInfo tells of the cluster object.

Source: luxid.md 2.8.
"""

from typing import Final

from common.objects.codec import to_json
from common.objects.index import ConfigIndex

# plain copies; null where the cluster object has none
# fmt: off
_COPIED: Final = (
    "enabled_hypervisors", "hvparams", "os_hvp", "beparams", "osparams", "ipolicy", "nicparams", "ndparams",
    "diskparams", "candidate_pool_size", "max_running_jobs", "max_tracked_jobs", "mac_prefix", "master_netdev",
    "master_netmask", "use_external_mip_script", "volume_group_name", "drbd_usermode_helper", "file_storage_dir",
    "shared_file_storage_dir", "gluster_storage_dir", "maintain_node_health", "ctime", "mtime", "uuid", "tags",
    "uid_pool", "default_iallocator", "default_iallocator_params", "reserved_lvs", "prealloc_wipe_disks",
    "hidden_os", "blacklisted_os", "enabled_disk_templates", "install_image", "instance_communication_network",
    "zeroing_image", "compression_tools", "enabled_user_shutdown", "modify_ssh_setup", "ssh_key_type", "ssh_key_bits",
)
# fmt: on
_INET6: Final = 10


def cluster_facts(index: ConfigIndex) -> dict[str, object]:
    """The keys of QueryClusterInfo that come from the configuration."""
    cluster = index.config.cluster
    written = to_json(cluster)
    return {
        "config_version": index.config.version,
        "name": cluster.cluster_name,
        "master": index.master_name,
        "default_hypervisor": cluster.enabled_hypervisors[0].value if cluster.enabled_hypervisors else None,
        "primary_ip_version": 6 if cluster.primary_ip_family == _INET6 else 4,
        "enabled_data_collectors": {name: each.active for name, each in cluster.data_collectors.items()},
        "data_collector_interval": {name: each.interval for name, each in cluster.data_collectors.items()},
        **{key: written.get(key) for key in _COPIED},
    }

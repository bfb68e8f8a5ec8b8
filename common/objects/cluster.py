"""The cluster: its name, its master, and the parameters that all other objects inherit.

Source: wconfd.md 7.3.
"""

from collections.abc import Mapping

import attrs

from common.objects.entity import Entity, Params, own_first
from common.objects.ipolicy import Ipolicy
from common.objects.kinds import DiskTemplate, Hypervisor, NodeUuid, SshKeyType
from common.objects.params import BeParams, NdParams, NicParams


@attrs.frozen(kw_only=True)
class DataCollector:
    active: bool
    # microseconds
    interval: int


@attrs.frozen(kw_only=True, field_transformer=own_first)
class Cluster(Entity):
    rsahostkeypub: str
    dsahostkeypub: str | None = None
    highest_used_port: int
    # ports that were used and are free again
    tcpudp_port_pool: tuple[int, ...]
    mac_prefix: str
    volume_group_name: str | None = None
    reserved_lvs: tuple[str, ...]
    drbd_usermode_helper: str | None = None
    # "" while the cluster is being destroyed
    master_node: NodeUuid
    master_ip: str
    master_netdev: str
    master_netmask: int
    use_external_mip_script: bool
    cluster_name: str
    file_storage_dir: str
    shared_file_storage_dir: str
    gluster_storage_dir: str
    enabled_hypervisors: tuple[Hypervisor, ...]
    hvparams: Mapping[Hypervisor, Params]
    # operating system -> hypervisor -> parameters
    os_hvp: Mapping[str, Mapping[Hypervisor, Params]]
    # profile -> parameters; "default" is the only profile
    beparams: Mapping[str, BeParams]
    osparams: Mapping[str, Mapping[str, str]]
    osparams_private_cluster: Mapping[str, Mapping[str, str]]
    nicparams: Mapping[str, NicParams]
    ndparams: NdParams
    diskparams: Mapping[DiskTemplate, Params]
    candidate_pool_size: int
    modify_etc_hosts: bool
    modify_ssh_setup: bool
    maintain_node_health: bool
    # ranges, both ends included
    uid_pool: tuple[tuple[int, int], ...]
    default_iallocator: str
    default_iallocator_params: Mapping[str, object]
    hidden_os: tuple[str, ...]
    blacklisted_os: tuple[str, ...]
    # the number of the address family: 2 for IPv4, 10 for IPv6
    primary_ip_family: int
    prealloc_wipe_disks: bool
    ipolicy: Ipolicy
    hv_state_static: Params = attrs.Factory(dict)
    disk_state_static: Params = attrs.Factory(dict)
    enabled_disk_templates: tuple[DiskTemplate, ...]
    # digests of the certificates of the master candidates
    candidate_certs: Mapping[NodeUuid, str]
    max_running_jobs: int
    max_tracked_jobs: int
    install_image: str
    instance_communication_network: str
    zeroing_image: str
    compression_tools: tuple[str, ...]
    enabled_user_shutdown: bool
    data_collectors: Mapping[str, DataCollector]
    ssh_key_type: SshKeyType
    ssh_key_bits: int

"""The first configuration of a new cluster: one node, one group, and defaults for the rest.

Source: wconfd.md 7.3 and 7.6.
"""

from typing import Final

import attrs

from common.objects.config import (
    CONFIG_VERSION,
    BeParams,
    Cluster,
    Config,
    DataCollector,
    Ipolicy,
    Ispec,
    MinMax,
    NdParams,
    NicConnection,
    Node,
    NodeGroup,
    PartialIpolicy,
    PartialNdParams,
)
from common.objects.kinds import (
    AllocPolicy,
    DiskTemplate,
    GroupUuid,
    Hypervisor,
    Mebibytes,
    NicMode,
    NodeUuid,
    SshKeyType,
)

# name of the only profile of parameters
DEFAULT: Final = "default"
# local address that no node has: Ganeti allows only one owner of an address
_MASTER_IP: Final = "127.0.0.2"
_AF_INET: Final = 2
_COLLECTORS: Final = ("cpu-avg-load", "diskstats", "drbd", "inst-status-xen", "lv", "xen-cpu-avg-load")
_COLLECTOR_INTERVAL_US: Final = 5_000_000

_SMALLEST: Final = Ispec(memory_size=128, disk_size=1024, disk_count=0, cpu_count=1, nic_count=0, spindle_use=1)
_LARGEST: Final = Ispec(
    memory_size=32768, disk_size=1024 * 1024, disk_count=16, cpu_count=8, nic_count=8, spindle_use=12
)
_STANDARD: Final = Ispec(memory_size=128, disk_size=1024, disk_count=1, cpu_count=1, nic_count=1, spindle_use=1)


@attrs.frozen(kw_only=True)
class NewUuids:
    """The ids of the first objects."""

    cluster: str
    node: NodeUuid
    group: GroupUuid


# default limit
MAX_RUNNING_JOBS: Final = 50


def initial_config(
    cluster_name: str,
    node_name: str,
    *,
    primary_ip: str = "127.0.0.1",
    max_running_jobs: int = MAX_RUNNING_JOBS,
    now: float,
    uuids: NewUuids,
) -> Config:
    """Return a valid configuration of one node, which is the master, without instances.

    Args:
        now: seconds since the epoch.
    """
    return Config(
        version=CONFIG_VERSION,
        cluster=_cluster(cluster_name, max_running_jobs, now, uuids),
        nodes={uuids.node: _node(node_name, primary_ip, now, uuids)},
        nodegroups={uuids.group: _group(now, uuids.group)},
        instances={},
        networks={},
        disks={},
        filters={},
        ctime=now,
        mtime=now,
        serial_no=1,
    )


def _cluster(name: str, max_running_jobs: int, now: float, uuids: NewUuids) -> Cluster:
    return Cluster(
        rsahostkeypub="",
        highest_used_port=10999,
        tcpudp_port_pool=(),
        mac_prefix="aa:00:00",
        reserved_lvs=(),
        master_node=uuids.node,
        master_ip=_MASTER_IP,
        master_netdev="lo",
        master_netmask=32,
        use_external_mip_script=False,
        cluster_name=name,
        file_storage_dir="/srv/gantry/file-storage",
        shared_file_storage_dir="/srv/gantry/shared-file-storage",
        gluster_storage_dir="/run/gantry/gluster",
        enabled_hypervisors=(Hypervisor.FAKE,),
        hvparams={Hypervisor.FAKE: {"migration_mode": "live"}},
        os_hvp={},
        beparams={DEFAULT: _be_params()},
        osparams={},
        osparams_private_cluster={},
        nicparams={DEFAULT: NicConnection(mode=NicMode.BRIDGED, link="br0", vlan="")},
        ndparams=_nd_params(),
        diskparams={template: {} for template in DiskTemplate},
        candidate_pool_size=10,
        modify_etc_hosts=False,
        modify_ssh_setup=False,
        maintain_node_health=False,
        uid_pool=(),
        default_iallocator="",
        default_iallocator_params={},
        hidden_os=(),
        blacklisted_os=(),
        primary_ip_family=_AF_INET,
        prealloc_wipe_disks=False,
        ipolicy=_ipolicy(),
        enabled_disk_templates=(DiskTemplate.DISKLESS,),
        candidate_certs={},
        max_running_jobs=max_running_jobs,
        max_tracked_jobs=75,
        install_image="",
        instance_communication_network="",
        zeroing_image="",
        compression_tools=("gzip", "gzip-fast", "gzip-slow"),
        enabled_user_shutdown=False,
        data_collectors={name: DataCollector(active=True, interval=_COLLECTOR_INTERVAL_US) for name in _COLLECTORS},
        ssh_key_type=SshKeyType.RSA,
        ssh_key_bits=2048,
        ctime=now,
        mtime=now,
        uuid=uuids.cluster,
        serial_no=1,
    )


def _be_params() -> BeParams:
    return BeParams(
        minmem=Mebibytes(128),
        maxmem=Mebibytes(128),
        vcpus=1,
        auto_balance=True,
        always_failover=False,
        spindle_use=1,
    )


def _nd_params() -> NdParams:
    return NdParams(
        oob_program="",
        spindle_count=1,
        exclusive_storage=False,
        ovs=False,
        ovs_name="switch1",
        ovs_link="",
        ssh_port=22,
        cpu_speed=1,
    )


def _ipolicy() -> Ipolicy:
    return Ipolicy(
        minmax=(MinMax(min=_SMALLEST, max=_LARGEST),),
        std=_STANDARD,
        spindle_ratio=32,
        vcpu_ratio=4,
        disk_templates=tuple(DiskTemplate),
    )


def _node(name: str, primary_ip: str, now: float, uuids: NewUuids) -> Node:
    return Node(
        name=name,
        primary_ip=primary_ip,
        secondary_ip=primary_ip,
        master_candidate=True,
        offline=False,
        drained=False,
        group=uuids.group,
        master_capable=True,
        vm_capable=True,
        ndparams=PartialNdParams(),
        powered=True,
        ctime=now,
        mtime=now,
        uuid=uuids.node,
        serial_no=1,
    )


def _group(now: float, uuid: GroupUuid) -> NodeGroup:
    return NodeGroup(
        name=DEFAULT,
        ndparams=PartialNdParams(),
        alloc_policy=AllocPolicy.PREFERRED,
        ipolicy=PartialIpolicy(),
        diskparams={},
        networks={},
        ctime=now,
        mtime=now,
        uuid=uuid,
        serial_no=1,
    )

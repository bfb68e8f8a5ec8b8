"""The fields of each kind of things, in the order of Ganeti's replies.

Source: rapi.md 6.
"""

from typing import Final

# fmt: off
_AGE: Final = ("ctime", "mtime", "uuid", "serial_no", "tags")
JOBS: Final = ("id", "ops", "status", "summary", "opstatus", "received_ts", "start_ts", "end_ts")
JOB: Final = (*JOBS, "oplog", "opresult")
RULE: Final = ("watermark", "priority", "predicates", "action", "reason_trail", "uuid")
NODE: Final = (
    "name", "offline", "master_candidate", "drained", "dtotal", "dfree", "sptotal", "spfree", "mtotal", "mnode",
    "mfree", "pinst_cnt", "sinst_cnt", "ctotal", "cnos", "cnodes", "csockets", "pip", "sip", "role", "pinst_list",
    "sinst_list", "master_capable", "vm_capable", "ndparams", "group.uuid", *_AGE,
)
GROUP: Final = (
    "alloc_policy", "name", "node_cnt", "node_list", "ipolicy", "custom_ipolicy", "diskparams", "custom_diskparams",
    "ndparams", "custom_ndparams", *_AGE,
)
NETWORK: Final = (
    "name", "network", "gateway", "network6", "gateway6", "mac_prefix", "free_count", "reserved_count", "map",
    "group_list", "inst_list", "external_reservations", *_AGE,
)
INSTANCE: Final = (
    "name", "admin_state", "os", "pnode", "snodes", "disk_template", "nic.ips", "nic.macs", "nic.modes", "nic.uuids",
    "nic.names", "nic.links", "nic.networks", "nic.networks.names", "nic.bridges", "network_port", "disk.sizes",
    "disk.spindles", "disk_usage", "disk.uuids", "disk.names", "beparams", "hvparams", "oper_state", "oper_ram",
    "oper_vcpus", "status", "custom_hvparams", "custom_beparams", "custom_nicparams", "custom_osparams", *_AGE,
)
OS_NAMES: Final = ("name", "variants")
OS: Final = (
    "name", "valid", "variants", "parameters", "api_versions", "blacklisted", "hidden", "trusted",
)
# what an old server lacks; in any order
FEATURES: Final = (
    "instance-create-reqv1", "instance-reinstall-reqv1", "node-migrate-reqv1", "node-evac-res1",
)
# fmt: on

"""The options that change parameters of the cluster, and what they become in the opcode.

Source: opcodes.md 4, CLUSTER_SET_PARAMS; Ganeti's `gnt-cluster modify --help` (seen).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import click

from cli.choosing.values import KEY_VALUES, YES_NO
from cli.cluster.modifying.parametertypes import COUNT, FLAGS, INTERVALS, OS_CHANGES, SIZES, UIDS, WORDS
from cli.group.values import BoundsType, OfType, RatioType
from cli.options import F, with_options

Values = Mapping[str, object]
# (what, its values), as `OfType` reads them
OfThings = Sequence[tuple[str, Values]]


def _option(
    *names: str, help: str, type: object = str, metavar: str | None = None, multiple: bool = False
) -> Callable[[F], F]:
    return click.option(*names, type=type, metavar=metavar, help=help, multiple=multiple)


# options whose value is the opcode's parameter of that name
_PLAIN: Final = (
    _option("--max-running-jobs", type=COUNT, metavar="N", help="Jobs that may run at the same time."),
    _option(
        "--max-tracked-jobs",
        type=COUNT,
        metavar="N",
        help="Running jobs that a Ganeti follows by events; here all are.",
    ),
    _option(
        *("-C", "--candidate-pool-size"),
        type=COUNT,
        metavar="N",
        help="Master candidates that the cluster should have, the master among them.",
    ),
    _option("-m", "--mac-prefix", metavar="PREFIX", help="Begin of the MAC addresses of instances: aa:00:55."),
    _option("--enabled-hypervisors", type=WORDS, help="Hypervisors of instances."),
    _option("-B", "--backend-parameters", "beparams", type=KEY_VALUES, help="Resources of instances: vcpus=2."),
    _option("-N", "--nic-parameters", "nicparams", type=KEY_VALUES, help="How interfaces are connected: mode, link."),
    _option("--node-parameters", "ndparams", type=KEY_VALUES, help="Parameters of nodes: ssh_port=2222."),
    _option("--enabled-disk-templates", type=WORDS, help="Kinds of disks of instances."),
    _option("--vg-name", metavar="NAME", help="Volume group of disks; '' for none."),
    _option("--drbd-usermode-helper", "drbd_helper", metavar="PATH", help="Helper of DRBD; '' for none."),
    _option("--file-storage-dir", metavar="DIR", help="Folder of disks that are files; '' for none."),
    _option("--shared-file-storage-dir", metavar="DIR", help="The same for files that all nodes share."),
    _option("--gluster-storage-dir", metavar="DIR", help="The same for Gluster."),
    _option("--reserved-lvs", type=WORDS, help="Patterns of volumes that are not the cluster's; '' for none."),
    _option(
        "-I", "--default-iallocator", metavar="NAME", help="Program that chooses nodes for instances; '' for none."
    ),
    _option("--default-iallocator-params", type=KEY_VALUES, help="Its parameters."),
    _option("--uid-pool", type=UIDS, help="User ids for instances: 5000-5009,6000."),
    _option("--add-uids", type=UIDS, help="User ids to add to the pool."),
    _option("--remove-uids", type=UIDS, help="User ids to remove from the pool."),
    _option("--hidden-os", type=OS_CHANGES, help="Systems to hide, and to show again: +name,-name."),
    _option("--blacklisted-os", type=OS_CHANGES, help="Systems that are not offered: +name,-name."),
    _option("--maintain-node-health", type=YES_NO, help="Whether a watcher stops what does not belong on a node."),
    _option("--prealloc-wipe-disks", type=YES_NO, help="Whether new disks are wiped."),
    _option("--modify-etc-hosts", type=YES_NO, help="Whether nodes get lines in /etc/hosts."),
    _option(
        "--user-shutdown", "enabled_user_shutdown", type=YES_NO, help="Whether users may shut down their instances."
    ),
    _option("--install-image", metavar="IMAGE", help="Image that installs instances: a path or an address."),
    _option("--zeroing-image", metavar="IMAGE", help="Image that wipes disks before an export."),
    _option("--compression-tools", type=WORDS, help="Programs that compress transfers of instances."),
    _option("--instance-communication-network", metavar="NETWORK", help="Network on which instances talk to nodes."),
    _option("--enabled-data-collectors", type=FLAGS, help="Collectors of data that are on: lv=1,drbd=0."),
    _option("--data-collector-interval", type=INTERVALS, help="Seconds between their looks: lv=9."),
    _option("--master-netdev", metavar="DEVICE", help="Refused here unless it is so: the master's address is up."),
    _option("--master-netmask", type=int, metavar="BITS", help="Refused here unless it is so."),
    _option("--use-external-mip-script", type=YES_NO, help="Refused here unless it is so."),
)
_OF_THINGS: Final = (
    _option(
        *("-H", "--hypervisor-parameters", "hvparams"),
        type=OfType("HYPERVISOR:NAME=VALUE,..."),
        multiple=True,
        help="Parameters of a hypervisor: kvm:acpi=false.",
    ),
    _option(
        *("-D", "--disk-parameters", "diskparams"),
        type=OfType("TEMPLATE:NAME=VALUE,..."),
        multiple=True,
        help="Parameters of disks: drbd:resync-rate=2048.",
    ),
    _option(
        "--hypervisor-state",
        "hv_state",
        type=OfType("HYPERVISOR:NAME=VALUE,..."),
        multiple=True,
        help="Kept, and not used yet.",
    ),
    _option(
        "--disk-state",
        "disk_state",
        type=OfType("TYPE/NAME:NAME=VALUE,..."),
        multiple=True,
        help="Kept, and not used yet.",
    ),
)
_POLICY: Final = (
    _option(
        "--ipolicy-bounds-specs",
        "bounds",
        type=BoundsType(),
        help="Least and greatest sizes of instances; several ranges with // between.",
    ),
    _option("--ipolicy-std-specs", "std", type=SIZES, help="Usual size of instances: cpu-count=2,memory-size=1g."),
    _option("--ipolicy-disk-templates", "templates", type=WORDS, help="Disk templates of instances."),
    _option("--ipolicy-vcpu-ratio", "vcpu_ratio", type=RatioType(), help="Virtual CPUs for each real one."),
    _option("--ipolicy-spindle-ratio", "spindle_ratio", type=RatioType(), help="Instances for each spindle."),
)
_OFF: Final = (
    click.option("--no-lvm-storage", "has_no_lvm", is_flag=True, help="As --vg-name ''."),
    click.option("--no-drbd-storage", "has_no_drbd", is_flag=True, help="As --drbd-usermode-helper ''."),
)
# flag, the parameter that it empties, and the options of both
_EXCLUDING: Final = (
    ("has_no_lvm", "vg_name", "--no-lvm-storage and --vg-name"),
    ("has_no_drbd", "drbd_helper", "--no-drbd-storage and --drbd-usermode-helper"),
)
_POLICY_PARTS: Final = {
    "bounds": "minmax",
    "std": "std",
    "templates": "disk-templates",
    "vcpu_ratio": "vcpu-ratio",
    "spindle_ratio": "spindle-ratio",
}
LIMITS: Final = ("max_running_jobs", "max_tracked_jobs")


def parameter_options(function: F) -> F:
    """All options that change a parameter."""
    return with_options(function, *_PLAIN, *_OF_THINGS, *_POLICY, *_OFF)


def op_values(given: Values) -> dict[str, object]:
    """The parameters of the opcode that are given.

    Args: given: all that `parameter_options` pass.
    Raises: click.UsageError: two options contradict each other.
    """
    values = dict(given)
    for flag, name, options in _EXCLUDING:
        if values.pop(flag):
            if values[name]:
                raise click.UsageError(f"{options} exclude each other; give one of them")
            values[name] = ""
    policy = {part: value for name, part in _POLICY_PARTS.items() if (value := values.pop(name)) is not None}
    values["ipolicy"] = policy or None
    for name in ("hvparams", "diskparams", "hv_state"):
        values[name] = _merged(cast(OfThings, values[name])) or None
    values["disk_state"] = _by_storage(cast(OfThings, values["disk_state"])) or None
    return {name: value for name, value in values.items() if value is not None}


def _merged(given: OfThings) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for what, values in given:
        found[what] = {**found.get(what, {}), **values}
    return found


def _by_storage(given: OfThings) -> Mapping[str, Mapping[str, Values]]:
    """`plain/xenvg` -> values, as storage type -> name -> values."""
    found: dict[str, dict[str, Values]] = {}
    for place, values in _merged(given).items():
        kind, _, name = place.partition("/")
        found.setdefault(kind, {})[name] = values
    return found

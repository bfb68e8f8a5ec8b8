"""The verbs of `gnt-cluster` that change the cluster."""

from collections.abc import Callable, Mapping
from typing import Final, cast

import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import installation, wants_json
from cli.exitcodes import DONE, NOT_CONFIRMED
from cli.options import KEY_VALUES, WORDS, YES_NO, F, ReadType, read_key_values, read_words, with_options
from cli.parameters import BOUNDS_OPTION, DISK_OPTION, RATIO_OPTIONS, STATE_OPTIONS, of_type, parameters_of
from cli.screen import complain, confirm, is_interactive, remark, say_json, say_result
from cli.submitting.options import SubmissionOptions, submit_options
from cli.submitting.submission import carry_out
from common.daemons import NodeKind
from common.errors import Conflict
from common.nodes.nodeplace import place_of
from common.wire import read_mebibytes
from protocol.luxi.queries import QueryConfigValues
from protocol.luxi.queue import SetJobLimits

# Types of the options that change parameters of the cluster.
#
# Source: Ganeti's `gnt-cluster modify --help` (seen).


_MICROSECONDS: Final = 1_000_000
# longest interval; in microseconds it fits into 64 bits
_MOST_SECONDS: Final = 10**12
_COUNT_DIGITS: Final = 9
_YES: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
# action of a mark before a name
_ACTIONS: Final = {"+": "add", "-": "remove"}


def _uids(text: str) -> list[list[int]]:
    return [_range(word) for word in read_words(text)]


def _range(word: str) -> list[int]:
    lowest, dash, highest = word.partition("-")
    try:
        return [int(lowest), int(highest) if dash else int(lowest)]
    except ValueError:
        raise ValueError(f"'{word:.40}' is not a user id, nor a range as in 5000-5009") from None


def _os_changes(text: str) -> list[list[str]]:
    for word in read_words(text):
        if word[0] not in _ACTIONS or len(word) == 1:
            raise ValueError(f"'{word:.40}' has no + or - before a name; write +name to add, -name to remove")
    return [[_ACTIONS[word[0]], word[1:]] for word in read_words(text)]


def _flags(text: str) -> dict[str, bool]:
    return {name: _yes(value) for name, value in read_key_values(text).items()}


def _yes(text: str) -> bool:
    if text.lower() not in _YES:
        raise ValueError(f"'{text:.40}' is neither 1 nor 0")
    return _YES[text.lower()]


def _intervals(text: str) -> dict[str, int]:
    return {name: round(_seconds(value) * _MICROSECONDS) for name, value in read_key_values(text).items()}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    # this form refuses nan as well
    if not 0 <= seconds <= _MOST_SECONDS:
        raise ValueError(f"'{text:.40}' is not a number of seconds from 0 to {_MOST_SECONDS}")
    return seconds


def _sizes(text: str) -> dict[str, int]:
    return {
        name: read_mebibytes(value) if name.endswith("-size") else _count(value)
        for name, value in read_key_values(text).items()
    }


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _COUNT_DIGITS):
        raise ValueError(f"'{text:.40}' is not a whole number")
    return int(text)


COUNT: Final = click.IntRange(min=1)
UIDS: Final = ReadType(_uids, "ID[-ID],...")
OS_CHANGES: Final = ReadType(_os_changes, "[+-]NAME,...")
FLAGS: Final = ReadType(_flags, "NAME=0|1,...")
INTERVALS: Final = ReadType(_intervals, "NAME=SECONDS,...")
SIZES: Final = ReadType(_sizes, "NAME=VALUE,...")


# The options that change parameters of the cluster, and what they become in the opcode.
#
# Source: opcodes.md 4, CLUSTER_SET_PARAMS; Ganeti's `gnt-cluster modify --help` (seen).


Values = Mapping[str, object]


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
        type=of_type("HYPERVISOR:NAME=VALUE,..."),
        multiple=True,
        help="Parameters of a hypervisor: kvm:acpi=false.",
    ),
    DISK_OPTION,
    *STATE_OPTIONS,
)
_POLICY: Final = (
    BOUNDS_OPTION,
    _option("--ipolicy-std-specs", "std", type=SIZES, help="Usual size of instances: cpu-count=2,memory-size=1g."),
    _option("--ipolicy-disk-templates", "templates", type=WORDS, help="Disk templates of instances."),
    *RATIO_OPTIONS,
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
LIMITS: Final = ("max_running_jobs", "max_tracked_jobs")


def parameter_options(function: F) -> F:
    """All options that change a parameter."""
    return with_options(function, *_PLAIN, *_OF_THINGS, *_POLICY, *_OFF)


def op_values(given: Values) -> dict[str, object]:
    """The parameters of the opcode that are given.

    Args: given: all that `parameter_options` pass.
    Raises: click.UsageError: two options contradict each other.
    """
    values = parameters_of(given)
    for flag, name, options in _EXCLUDING:
        if values.pop(flag):
            if values[name]:
                raise click.UsageError(f"{options} exclude each other; give one of them")
            values[name] = ""
    return {name: value for name, value in values.items() if value is not None}


# `gnt-cluster modify`: change the parameters of the cluster.
#
# Source: cli.md 5; opcodes.md 4, CLUSTER_SET_PARAMS.


@click.command(
    "modify",
    cls=Command,
    examples=(
        "gnt-cluster modify --max-running-jobs 20",
        "gnt-cluster modify --candidate-pool-size 5",
        "gnt-cluster modify -B vcpus=2,maxmem=2g --ipolicy-vcpu-ratio 4",
        "gnt-cluster modify --enabled-hypervisors kvm,fake -H kvm:acpi=false",
        "gnt-cluster modify --uid-pool 5000-5009 --hidden-os +etch",
    ),
)
@parameter_options
@click.option("-f", "--force", is_flag=True, help="Accepted as by Ganeti's command; it changes nothing.")
@submit_options
def modify(force: bool, submission: SubmissionOptions, **given: object) -> int:
    """Change parameters of the cluster; what is left out stays.

    Limits of jobs alone are in force at once; all else is changed by a job, which checks everything first. What only
    nodes know, as volume groups, is stored as it is given. Waits for the job, except with --submit.
    """
    values = op_values(given)
    if not values:
        raise click.UsageError("nothing to change; name a limit, as in: gnt-cluster modify --max-running-jobs 20")
    if values.keys() <= set(LIMITS) and submission == SubmissionOptions():
        ask_luxid(SetJobLimits(*(cast(int | None, given[name]) for name in LIMITS)))
        code = DONE
    else:
        op = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "force": force, **values}
        code = carry_out(op, submission, "gnt-cluster", "modify")
    if code == DONE and wants_json() and (submission.is_waiting or not submission.is_ganeti_form):
        say_json({**dict.fromkeys(LIMITS), **values})
    return code


# `gnt-cluster rename`: give the cluster another name.
#
# Source: opcodes.md 4, CLUSTER_RENAME.


@click.command("rename", cls=Command, examples=("gnt-cluster rename lab.example.com", "gnt-cluster rename -f lab"))
@click.option("-f", "--force", is_flag=True, help="Do not ask.")
@submit_options
@click.argument("name", metavar="NAME")
def rename(name: str, force: bool, submission: SubmissionOptions) -> int:
    """Give the cluster the name NAME, under the lock that keeps all other jobs out.

    The name must have the address that the cluster has; one machine alone need have none. Waits for the job, except
    with --submit.
    """
    question = f"All jobs wait until the cluster is called '{name}'. Rename it?"
    if not force and not confirm(question):
        complain("the cluster was not renamed" + ("" if is_interactive() else "; without a terminal, confirm with -f"))
        return NOT_CONFIRMED
    (old,) = ask_luxid(QueryConfigValues(("cluster_name",)))
    op = {"OP_ID": "OP_CLUSTER_RENAME", "name": name}
    return carry_out(op, submission, "gnt-cluster", "rename", lambda result: _tell(old, result))


def _tell(old: object, new: object) -> None:
    if new is None:
        # a dry run
        return
    say_result(new, f"Cluster renamed from '{old}' to '{new}'")


# `gnt-cluster redist-conf`: send the configuration to all nodes again.
#
# Source: cli.md 5; noded.md 8.


@click.command("redist-conf", cls=Command, examples=("gnt-cluster redist-conf", "gnt-cluster redist-conf --submit"))
@submit_options
def redist_conf(submission: SubmissionOptions) -> int:
    """Send the configuration, ssconf and shared files to all nodes again.

    The job's log names the nodes that are not reached.
    """
    return carry_out({"OP_ID": "OP_CLUSTER_REDIST_CONF"}, submission, "gnt-cluster", "redist-conf")


# `gnt-cluster renew-crypto`: renew the certificates of cluster and nodes.
#
# Source: opcodes.md 4; DESIGN section 13.


@click.command(
    "renew-crypto",
    cls=Command,
    examples=(
        "gnt-cluster renew-crypto --new-node-certificates",
        "gnt-cluster renew-crypto --new-cluster-certificate",
    ),
)
@click.option("--new-cluster-certificate", "is_cluster", is_flag=True, help="A new one for the cluster, and the nodes.")
@click.option("--new-node-certificates", "is_nodes", is_flag=True, help="New ones for all nodes that are online.")
@submit_options
def renew_crypto(is_cluster: bool, is_nodes: bool, submission: SubmissionOptions) -> int:
    """Renew certificates by a job; with neither option it finishes a renewal that has failed.

    All daemons go on meanwhile. A node that is offline keeps its old certificate, and comes back with a
    token of 'gnt-cluster join-token --readd NODE'.
    """
    settings = installation()
    paths = settings.paths
    if is_cluster:
        if not settings.cluster.has_nodes or place_of(settings) is not NodeKind.MASTER:
            raise Conflict("a new certificate of the cluster is made on the master of a cluster of several machines")
        # imported late: few commands need it
        from common.nodes.certificates import make_next

        if not make_next(paths):
            remark("an earlier renewal is not finished; this one goes on with its certificate")
    renews_nodes = is_nodes or is_cluster or paths.next_server_pem.exists()
    op = {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO", "node_certificates": renews_nodes}
    return carry_out(op, submission, "gnt-cluster", "renew-crypto")

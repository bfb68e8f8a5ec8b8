"""`gnt-cluster info`: what most want to know of the cluster, or all parameters in the form of Ganeti's command.

Where the installation takes the place of Ganeti's daemons, scripts expect that form, and get it.

Source: luxid.md 2.8; Ganeti's `gnt-cluster info` (recorded).
"""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs
import click

from cli.choosing.lists import as_list, as_object
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import installation, wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json, say_result
from common.printable import json_text, printable
from common.settings import GanetiSettings
from common.wire import structure
from common.words.times import bare_clock
from protocol.luxi.queries import QueryClusterInfo

# The text of `gnt-cluster info`: nested values with two blanks for each level, as Ganeti's command prints them.
#
# Source: Ganeti's `gnt-cluster info` (recorded).


Facts = Mapping[str, object]

_INDENT: Final = "  "
_MICROSECONDS: Final = 1_000_000
# title -> key of the facts
_PARAMETERS: Final = {
    "candidate pool size": "candidate_pool_size",
    "maximal number of jobs running simultaneously": "max_running_jobs",
    "maximal number of jobs simultaneously tracked by the scheduler": "max_tracked_jobs",
    "mac prefix": "mac_prefix",
    "master netdev": "master_netdev",
    "master netmask": "master_netmask",
    "use external master IP address setup script": "use_external_mip_script",
    "lvm volume group": "volume_group_name",
    "lvm reserved volumes": "reserved_lvs",
    "drbd usermode helper": "drbd_usermode_helper",
    "file storage path": "file_storage_dir",
    "shared file storage path": "shared_file_storage_dir",
    "gluster storage path": "gluster_storage_dir",
    "maintenance of node health": "maintain_node_health",
    "uid pool": "uid_pool",
    "default instance allocator": "default_iallocator",
    "default instance allocator parameters": "default_iallocator_params",
    "primary ip version": "primary_ip_version",
    "preallocation wipe disks": "prealloc_wipe_disks",
    "enabled disk templates": "enabled_disk_templates",
    "install image": "install_image",
    "instance communication network": "instance_communication_network",
    "zeroing image": "zeroing_image",
    "compression tools": "compression_tools",
    "enabled user shutdown": "enabled_user_shutdown",
    "modify ssh setup": "modify_ssh_setup",
    "ssh_key_type": "ssh_key_type",
    "ssh_key_bits": "ssh_key_bits",
}
# titles of the short form
_SHORT: Final = ("Cluster name", "Cluster UUID", "Creation time", "Modification time", "Master node", "Tags")
_JOBS_LIMIT: Final = "maximal number of jobs that wait or run"
_SHORT_PARAMETERS: Final = (
    "candidate pool size",
    "maximal number of jobs running simultaneously",
    _JOBS_LIMIT,
)
_GROUPS: Final = {
    "Default node parameters": "ndparams",
    "Default instance parameters": "beparams",
    "Default nic parameters": "nicparams",
    "Default disk parameters": "diskparams",
}


def info_lines(facts: Facts, max_queued_jobs: int) -> Iterator[str]:
    """All lines. Args: facts: of QueryClusterInfo. max_queued_jobs: our own limit, which Ganeti has not."""
    for title, value in _tree(facts, max_queued_jobs).items():
        yield from _lines(title, value, "")


def short_lines(facts: Facts, max_queued_jobs: int) -> Iterator[str]:
    """The lines that most want to see, under the same titles. Args: as `info_lines`."""
    every = _tree(facts, max_queued_jobs)
    for title in _SHORT:
        yield from _lines(title, every[title], "")
    parameters = as_object(every["Cluster parameters"])
    for title in _SHORT_PARAMETERS:
        if title in parameters:
            yield from _lines(title, parameters[title], "")


def _tree(facts: Facts, max_queued_jobs: int) -> Mapping[str, object]:
    enabled = as_list(facts.get("enabled_hypervisors"))
    parameters = {title: _parameter(key, facts[key]) for title, key in _PARAMETERS.items() if key in facts}
    return {
        "Cluster name": facts.get("name"),
        "Cluster UUID": facts.get("uuid"),
        "Creation time": _clock(facts.get("ctime")),
        "Modification time": _clock(facts.get("mtime")),
        "Master node": facts.get("master"),
        "Architecture (this node)": _architecture(facts.get("architecture")),
        "Tags": ", ".join(sorted(map(str, as_list(facts.get("tags"))))) or "(none)",
        "Default hypervisor": facts.get("default_hypervisor"),
        "Enabled hypervisors": _joined(enabled),
        "Hypervisor parameters": {str(name): as_object(facts.get("hvparams")).get(str(name), {}) for name in enabled},
        "OS-specific hypervisor parameters": as_object(facts.get("os_hvp")),
        "OS parameters": as_object(facts.get("osparams")),
        "Hidden OSes": _joined(facts.get("hidden_os")),
        "Blacklisted OSes": _joined(facts.get("blacklisted_os")),
        "Cluster parameters": {**parameters, _JOBS_LIMIT: max_queued_jobs},
        **{title: as_object(facts.get(key)) for title, key in _GROUPS.items()},
        "Instance policy - limits for instances": _policy(as_object(facts.get("ipolicy"))),
        "Data collectors": _collectors(facts),
    }


def _architecture(value: object) -> str | None:
    match value:
        case [bits, machine]:
            return f"{bits} ({machine})"
        case _:
            return None


def _parameter(key: str, value: object) -> object:
    match key:
        case "reserved_lvs":
            return _joined(value) or "(none)"
        case "uid_pool":
            ranges = [list(map(str, as_list(each))) for each in as_list(value)]
            return ", ".join("-".join(dict.fromkeys(each)) for each in ranges)
        case "enabled_disk_templates":
            return _joined(value)
        case _:
            return value


def _policy(policy: Facts) -> Mapping[str, object]:
    ranges = {
        f"{end}/{number}": as_object(sizes).get(end)
        for number, sizes in enumerate(as_list(policy.get("minmax")))
        for end in ("max", "min")
    }
    ratios = {name: policy[name] for name in ("spindle-ratio", "vcpu-ratio") if name in policy}
    templates = _joined(policy.get("disk-templates"))
    return {"bounds specs": [ranges], "std": policy.get("std", {}), "allowed disk templates": templates, **ratios}


def _collectors(facts: Facts) -> Mapping[str, object]:
    active = as_object(facts.get("enabled_data_collectors"))
    intervals = as_object(facts.get("data_collector_interval"))
    return {name: {"active": active[name], "interval": _seconds(intervals.get(name))} for name in sorted(active)}


def _seconds(microseconds: object) -> str:
    return f"{microseconds / _MICROSECONDS:.3f}s" if isinstance(microseconds, int) else ""


def _joined(value: object) -> str:
    return ", ".join(map(str, as_list(value)))


def _lines(title: str, value: object, indent: str) -> Iterator[str]:
    match value:
        case Mapping():
            yield f"{indent}{printable(title)}: "
            is_ordered = title in ("Cluster parameters", "Instance policy - limits for instances")
            for name in value if is_ordered else sorted(value):
                yield from _lines(name, value[name], indent + _INDENT)
        case [Mapping() as only]:
            yield f"{indent}{printable(title)}: "
            yield from _item(only, indent + _INDENT)
        case list():
            yield f"{indent}{printable(title)}: "
            yield from (f"{indent}{_INDENT}- {_text(each)}" for each in value)
        case _:
            yield f"{indent}{printable(title)}: {_text(value)}"


def _item(values: Mapping[str, object], indent: str) -> Iterator[str]:
    """The values of an item of a list; a dash stands before the first."""
    mark = "- "
    for name, value in values.items():
        first, *rest = _lines(name, value, "")
        yield f"{indent}{mark}{first}"
        yield from (f"{indent}{_INDENT}{line}" for line in rest)
        mark = _INDENT


def _text(value: object) -> str:
    if isinstance(value, str):
        return printable(value)
    return str(value) if value is None or isinstance(value, bool | int | float) else json_text(value)


def _clock(value: object) -> str | None:
    return bare_clock(value) if isinstance(value, int | float) else None


@click.command(
    "info",
    cls=Command,
    examples=("gnt-cluster info", "gnt-cluster info --full", "gnt-cluster info --output json | jq .master"),
)
@click.option("--full", is_flag=True, help="Show all parameters, as Ganeti's command does.")
def info(full: bool) -> int:
    """Tell what the cluster is and which node is its master; with --full, all its parameters.

    It tells all, too, in an installation that replaces Ganeti's daemons: one whose settings have a table "[ganeti]".
    """
    facts = ask_luxid(QueryClusterInfo())
    if wants_json():
        say_json(facts)
        return DONE
    settings = installation()
    # a table of settings of its own for installations among a real Ganeti's programs or on its files
    is_ganetis = settings.ganeti != GanetiSettings()
    lines = info_lines if full or is_ganetis else short_lines
    for line in lines(facts, settings.luxid.max_queued_jobs):
        say(line)
    return DONE


# `gnt-cluster show-ispecs-cmd`: the command line that gives a cluster the limits of this one.
#
# Source: Ganeti's `gnt-cluster show-ispecs-cmd` (recorded).


@attrs.frozen
class _Limits:
    """The parts of the policy that have sizes."""

    minmax: tuple[Mapping[str, Mapping[str, int]], ...]
    std: Mapping[str, int]


@click.command("show-ispecs-cmd", cls=Command, examples=("gnt-cluster show-ispecs-cmd",))
def show_ispecs_cmd() -> int:
    """Tell the command that makes a cluster of Ganeti with the sizes of instances that this one allows.

    Here 'gnt-cluster modify' has these options, and 'gnt-cluster init' has not.
    """
    facts = ask_luxid(QueryClusterInfo())
    policy = structure(
        {name: as_object(facts["ipolicy"])[name] for name in ("minmax", "std")}, _Limits, "instance policy"
    )
    ranges = "//".join("/".join(f"{end}:{_sizes(each[end])}" for end in ("min", "max")) for each in policy.minmax)
    words = ["gnt-cluster", "init", "--ipolicy-std-specs", _sizes(policy.std), "--ipolicy-bounds-specs", ranges]
    command = " ".join([*words, str(facts["name"])])
    say_result(command, command)
    return DONE


def _sizes(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={sizes[name]}" for name in sorted(sizes))


# `gnt-cluster version`: the versions of software and protocols.
#
# Source: luxid.md 2.8.


_LINES: Final = {
    "Software version": "software_version",
    "Internode protocol": "protocol_version",
    "Configuration format": "config_version",
    "OS api version": "os_api_version",
    "Export interface": "export_version",
    "VCS version": "vcs_version",
}


@click.command("version", cls=Command, examples=("gnt-cluster version",))
def version() -> int:
    """Tell the versions of the software, of its protocols and of its files."""
    facts = ask_luxid(QueryClusterInfo())
    if wants_json():
        say_json({name: facts[name] for name in _LINES.values()})
    else:
        for title, name in _LINES.items():
            say(f"{title}: {facts[name]}")
    return DONE

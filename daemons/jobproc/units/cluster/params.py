"""OP_CLUSTER_SET_PARAMS: changes the parameters of the cluster that its configuration alone decides."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, TypeVar

import attrs

from common.errors import PrerequisiteError, wrong_input
from common.objects.config import BeParams, Cluster, Ipolicy, NdParams, Network, NicConnection, Params, filled
from common.objects.hypervisordefaults import DEFAULTS
from common.objects.index import ConfigIndex
from common.objects.kinds import DiskTemplate, Hypervisor, NetworkUuid, NicMode
from common.objects.networkvalues import checked_mac_prefix
from common.objects.parameters import (
    DEFAULT,
    changed_disk_parameters,
    changed_disk_state,
    changed_hv_state,
    changed_hypervisor_parameters,
    changes_of,
    readers_of,
)
from common.objects.policies import changed_cluster_policy, new_cluster_violations
from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterSetParams
from common.opcodes.types import ListAction
from common.opcodes.types import NicParams as AskedNic
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.nodes import fill_pool
from protocol.luxi.jobs import JobInput

# The parameters of the cluster that depend on no other object: switches, lists, images, collectors of data. Pure.
#
# Source: opcodes.md 4, CLUSTER_SET_PARAMS; wconfd.md 7.3.


# values that are stored as they are given
_AS_GIVEN: Final = (
    *("max_running_jobs", "max_tracked_jobs", "maintain_node_health", "prealloc_wipe_disks", "modify_etc_hosts"),
    *("enabled_user_shutdown",),
)
_IMAGES: Final = ("install_image", "zeroing_image")
_OS_LISTS: Final = {"hidden_os": "hidden OS list", "blacklisted_os": "blacklisted OS list"}
_UID_MOST: Final = 2**32 - 1
_TOOL: Final = re.compile(r"[-_a-zA-Z0-9]+", re.ASCII)
# tool that Ganeti's programs always expect
_ALWAYS: Final = "gzip"

Range = tuple[int, int]


def with_plain(cluster: Cluster, op: OpClusterSetParams, notes: list[str]) -> Cluster:
    """The cluster with these parameters of the opcode.

    Args: notes: lines for the job's log are added.
    Raises: PrerequisiteError.
    """
    given = {name: value for name in _AS_GIVEN if (value := getattr(op, name)) is not None}
    cluster = attrs.evolve(cluster, **given)
    if op.mac_prefix is not None:
        cluster = attrs.evolve(cluster, mac_prefix=checked_mac_prefix(op.mac_prefix))
    if op.hv_state:
        cluster = attrs.evolve(cluster, hv_state_static=changed_hv_state(cluster.hv_state_static, op.hv_state))
    if op.disk_state:
        cluster = attrs.evolve(cluster, disk_state_static=changed_disk_state(cluster.disk_state_static, op.disk_state))
    cluster = attrs.evolve(cluster, uid_pool=_uid_pool(cluster.uid_pool, op))
    for name in _OS_LISTS:
        actions = getattr(op, name)
        if actions:
            listed = _os_list(getattr(cluster, name), actions, _OS_LISTS[name], notes)
            cluster = attrs.evolve(cluster, **{name: listed})  # type: ignore[arg-type]  # both are lists of names
    for name in _IMAGES:
        if (image := getattr(op, name)) is not None:
            cluster = attrs.evolve(cluster, **{name: _image(name, image)})  # type: ignore[arg-type]  # both are text
    if op.compression_tools is not None:
        cluster = attrs.evolve(cluster, compression_tools=_tools(op.compression_tools))
    return _with_collectors(_with_allocator(_with_os_parameters(cluster, op), op), op)


def _with_os_parameters(cluster: Cluster, op: OpClusterSetParams) -> Cluster:
    """The parameters of operating systems are for their scripts, which are on the nodes; only their form is checked."""
    return attrs.evolve(
        cluster,
        osparams=_by_system(cluster.osparams, op.osparams or {}, "osparams"),
        osparams_private_cluster=_by_system(
            cluster.osparams_private_cluster, op.osparams_private_cluster or {}, "osparams_private_cluster"
        ),
    )


def _by_system(
    before: Mapping[str, Mapping[str, str]], given: Mapping[str, Mapping[str, object]], what: str
) -> Mapping[str, Mapping[str, str]]:
    after = dict(before)
    for system, values in given.items():
        own = dict(before.get(system, {}))
        for name, value in values.items():
            if not isinstance(value, str):
                # the value may be private
                raise wrong_input(f"'{name:.40}' in '{what}' of '{system:.40}' must be text")
            if value == DEFAULT:
                own.pop(name, None)
            else:
                own[name] = value
        after[system] = own
    return {system: own for system, own in after.items() if own}


def _uid_pool(before: tuple[Range, ...], op: OpClusterSetParams) -> tuple[Range, ...]:
    pool = list(before if op.uid_pool is None else op.uid_pool)
    for each in op.add_uids or ():
        if each not in pool:
            pool.append(each)
    for each in op.remove_uids or ():
        if each not in pool:
            raise wrong_input(
                f"user ids {_range(each)} are not in the pool; it has {', '.join(map(_range, pool)) or 'none'}"
            )
        pool.remove(each)
    for lowest, highest in pool:
        if not 0 <= lowest <= highest <= _UID_MOST:
            raise wrong_input(f"user ids cannot be from {lowest} to {highest}; they lie between 0 and {_UID_MOST}")
    return tuple(sorted(pool))


def _range(ids: Range) -> str:
    return str(ids[0]) if ids[0] == ids[1] else f"{ids[0]}-{ids[1]}"


def _os_list(
    before: Sequence[str], actions: Iterable[tuple[ListAction, str]], what: str, notes: list[str]
) -> tuple[str, ...]:
    after = list(before)
    for action, name in actions:
        if action is ListAction.ADD:
            if name in after:
                notes.append(f"OS {name} already in {what}, ignoring")
            else:
                after.append(name)
        elif action is ListAction.REMOVE:
            if name in after:
                after.remove(name)
            else:
                notes.append(f"OS {name} not found in {what}, ignoring")
        else:
            raise wrong_input(f"the {what} knows 'add' and 'remove', not '{action.value}'")
    return tuple(after)


def _image(name: str, image: str) -> str:
    if image and not (image.startswith("/") or re.match(r"(https?|ftp)://\S", image)):
        raise wrong_input(f"'{name}' must be a whole path or an address of http, https or ftp, got '{image:.100}'")
    return image


def _tools(tools: tuple[str, ...]) -> tuple[str, ...]:
    for tool in tools:
        if not _TOOL.fullmatch(tool):
            raise wrong_input(
                f"'{tool:.40}' is not the name of a compression tool: letters, digits, - and _ are allowed"
            )
    if _ALWAYS not in tools:
        raise wrong_input(f"the compression tool '{_ALWAYS}' cannot be removed; name it among the others")
    return tuple(dict.fromkeys(tools))


def _with_allocator(cluster: Cluster, op: OpClusterSetParams) -> Cluster:
    if op.default_iallocator is not None:
        if op.default_iallocator and not _TOOL.fullmatch(op.default_iallocator):
            raise wrong_input(f"'{op.default_iallocator:.60}' is not the name of an allocator; give it without a path")
        cluster = attrs.evolve(cluster, default_iallocator=op.default_iallocator)
    if op.default_iallocator_params:
        after = {**cluster.default_iallocator_params, **op.default_iallocator_params}
        kept = {name: value for name, value in after.items() if value not in (DEFAULT, None)}
        cluster = attrs.evolve(cluster, default_iallocator_params=kept)
    return cluster


def _with_collectors(cluster: Cluster, op: OpClusterSetParams) -> Cluster:
    after = dict(cluster.data_collectors)
    for name in (*(op.enabled_data_collectors or {}), *(op.data_collector_interval or {})):
        if name not in after:
            raise wrong_input(f"there is no data collector '{name:.40}'; known are {', '.join(sorted(after))}")
    for name, is_active in (op.enabled_data_collectors or {}).items():
        after[name] = attrs.evolve(after[name], active=is_active)
    for name, interval in (op.data_collector_interval or {}).items():
        if interval < 1:
            raise wrong_input(f"the interval of data collector '{name}' must be at least 1 µs, got {interval}")
        after[name] = attrs.evolve(after[name], interval=interval)
    return attrs.evolve(cluster, data_collectors=after)


# Storage of the cluster: disk templates, the volume group, folders for files, DRBD's helper. Pure.
#
# Whether nodes have a volume group, a folder or a helper, is not asked.
#
# Source: opcodes.md 4, CLUSTER_SET_PARAMS; wconfd.md 7.3 and 7.6.


_ON_VOLUMES: Final = frozenset({DiskTemplate.PLAIN, DiskTemplate.DRBD})
# parameter -> disk template whose files lie in the folder
_FOLDERS: Final = {
    "file_storage_dir": DiskTemplate.FILE,
    "shared_file_storage_dir": DiskTemplate.SHAREDFILE,
    "gluster_storage_dir": DiskTemplate.GLUSTER,
}


# as Ganeti's jobs tell
_OF_DRBD: Final = (
    " - WARNING: Changing DRBD parameters only affects devices created in the future, not existing ones",
    " - WARNING: You need to shutdown and start (not reboot!) existing instances to adopt the changes",
    " - WARNING: Alternatively you can swap the secondary node by running "
    "`gnt-instance replace-disks --new-secondary $instance`",
)


def with_storage(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex, notes: list[str]) -> Cluster:
    """The cluster with the opcode's parameters of storage.

    Args: notes: lines for the job's log are added.
    Raises: PrerequisiteError.
    """
    if op.enabled_disk_templates is not None:
        cluster = _with_templates(cluster, op.enabled_disk_templates, config)
    if op.vg_name is not None:
        if (op.vg_name or None) == cluster.volume_group_name:
            notes.append("Cluster LVM configuration already in desired state, not changing")
        cluster = attrs.evolve(cluster, volume_group_name=op.vg_name or None)
    if op.drbd_helper is not None:
        if (op.drbd_helper or None) == cluster.drbd_usermode_helper:
            notes.append("Cluster DRBD helper already in desired state, not changing")
        cluster = attrs.evolve(cluster, drbd_usermode_helper=op.drbd_helper or None)
    for name, template in _FOLDERS.items():
        folder = getattr(op, name)
        if folder is not None:
            cluster = attrs.evolve(cluster, **{name: _folder(name, folder)})  # type: ignore[arg-type]  # all are text
            if folder and template not in cluster.enabled_disk_templates:
                notes.append(f" - WARNING: '{name}' is set, although disk template '{template.value}' is not enabled")
    if op.reserved_lvs is not None:
        cluster = attrs.evolve(cluster, reserved_lvs=_patterns(op.reserved_lvs))
    if op.diskparams:
        _refuse_defaults(op.diskparams)
        cluster = attrs.evolve(cluster, diskparams=changed_disk_parameters(cluster.diskparams, op.diskparams))
        if DiskTemplate.DRBD in op.diskparams:
            notes += _OF_DRBD
    _check(cluster, op, config)
    return cluster


def _refuse_defaults(given: Mapping[DiskTemplate, Params]) -> None:
    """Raises: PrerequisiteError: 'default' is for groups, which inherit, and the cluster does not."""
    for values in given.values():
        for name, value in values.items():
            if value == DEFAULT:
                raise wrong_input(f"'{name}' in 'diskparams' cannot be 'default': the cluster's value is the default")


def _with_templates(cluster: Cluster, wanted: tuple[DiskTemplate, ...], config: ConfigIndex) -> Cluster:
    if not wanted:
        raise wrong_input("a cluster needs at least one disk template")
    gone = set(cluster.enabled_disk_templates) - set(wanted)
    for template in sorted(gone, key=lambda each: each.value):
        if user := _user_of(config, {template}):
            raise PrerequisiteError(f"disk template '{template.value}' cannot be disabled: instance '{user}' uses it")
    return attrs.evolve(cluster, enabled_disk_templates=tuple(dict.fromkeys(wanted)))


def _check(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex) -> None:
    """Raises: PrerequisiteError: enabled disk templates lack what they need."""
    enabled = set(cluster.enabled_disk_templates)
    if (
        (op.vg_name is not None or op.enabled_disk_templates)
        and not cluster.volume_group_name
        and enabled & _ON_VOLUMES
    ):
        raise wrong_input("disk templates 'plain' and 'drbd' need a volume group; set 'vg_name'")
    if op.vg_name == "" and (user := _user_of(config, _ON_VOLUMES)):
        raise PrerequisiteError(f"the volume group cannot be unset: instance '{user}' has disks in it")
    if op.drbd_helper == "" and DiskTemplate.DRBD in enabled:
        raise wrong_input("the DRBD helper cannot be unset while disk template 'drbd' is enabled")
    for name, template in _FOLDERS.items():
        if getattr(op, name) == "" and template in enabled:
            raise wrong_input(f"'{name}' cannot be unset while disk template '{template.value}' is enabled")
    _check_disk_templates(cluster, op, config)


def _check_disk_templates(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex) -> None:
    """Raises: PrerequisiteError: the policy allows a disk template that this opcode disables, or allows it anew."""
    enabled, allowed = set(cluster.enabled_disk_templates), set(cluster.ipolicy.disk_templates)
    gone = set(config.cluster.enabled_disk_templates) - enabled
    new = allowed if "disk-templates" in (op.ipolicy or {}) else set()
    if wrong := sorted(template.value for template in allowed & ((gone | new) - enabled)):
        raise wrong_input(
            f"the instance policy allows disk template '{wrong[0]}', which is not enabled; "
            "change both in one job: 'enabled_disk_templates' and 'disk-templates' of 'ipolicy'"
        )


def _user_of(config: ConfigIndex, templates: set[DiskTemplate] | frozenset[DiskTemplate]) -> str | None:
    """The name of an instance with a disk of one of these templates."""
    for instance in config.instances:
        kinds = {disk.dev_type for disk in config.disks(instance)} or {DiskTemplate.DISKLESS}
        if kinds & templates:
            return instance.name or instance.uuid
    return None


def _folder(name: str, path: str) -> str:
    if path and (not posixpath.isabs(path) or posixpath.normpath(path) != path):
        raise wrong_input(f"'{name}' must be a whole path such as /srv/files, got '{path:.100}'")
    return path


def _patterns(texts: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in texts:
        try:
            re.compile(pattern)
        except re.error as error:
            raise wrong_input(f"the pattern '{pattern:.60}' in 'reserved_lvs' cannot be read: {error}") from None
    return texts


# What all instances and nodes of the cluster inherit: resources, interfaces, policy, parameters. Pure.
#
# Source: opcodes.md 4, CLUSTER_SET_PARAMS; wconfd.md 7.3, "Parameter groups".


F = TypeVar("F", BeParams, NdParams)
# name of the only profile of parameters
PROFILE: Final = "default"
_NICS: Final = ("mode", "link", "vlan")


def with_inherited(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex) -> Cluster:
    """The cluster with the parameters of the opcode that objects inherit. Raises: PrerequisiteError."""
    if op.beparams:
        cluster = attrs.evolve(cluster, beparams={**cluster.beparams, PROFILE: _resources(cluster, op.beparams)})
    if op.nicparams and op.nicparams != AskedNic():
        after = _interfaces(cluster, op.nicparams)
        _check_interfaces(config, after)
        cluster = attrs.evolve(cluster, nicparams={**cluster.nicparams, PROFILE: after})
    if op.ndparams:
        changes = _without_defaults(changes_of(op.ndparams, readers_of(NdParams), "node parameter"), "ndparams")
        cluster = attrs.evolve(cluster, ndparams=_evolved(cluster.ndparams, changes))
    if op.ipolicy:
        cluster = attrs.evolve(cluster, ipolicy=changed_cluster_policy(cluster.ipolicy, op.ipolicy))
    return cluster


def _resources(cluster: Cluster, given: Mapping[str, object]) -> BeParams:
    # the old name of both
    both = {"minmem": given["memory"], "maxmem": given["memory"]} if "memory" in given else {}
    wanted = {**both, **{name: value for name, value in given.items() if name != "memory"}}
    changes = _without_defaults(changes_of(wanted, readers_of(BeParams), "parameter of instances"), "beparams")
    after = _evolved(cluster.beparams[PROFILE], changes)
    if after.minmem > after.maxmem:
        raise wrong_input(f"'minmem' ({after.minmem}) must not exceed 'maxmem' ({after.maxmem})")
    for name in ("vcpus", "spindle_use"):
        if getattr(after, name) < 1:
            raise wrong_input(f"'{name}' must be at least 1, got {getattr(after, name)}")
    return after


def _interfaces(cluster: Cluster, given: AskedNic) -> NicConnection:
    named = {field.name: value for field in attrs.fields(AskedNic) if (value := getattr(given, field.name)) is not None}
    if foreign := [name for name in named if name not in _NICS]:
        raise wrong_input(f"interfaces of the cluster have no parameter '{foreign[0]}'; known are {', '.join(_NICS)}")
    if "mode" in named:
        named["mode"] = _mode(named["mode"])
    after: NicConnection = attrs.evolve(cluster.nicparams[PROFILE], **named)
    if after.mode is NicMode.BRIDGED and not after.link:
        raise wrong_input("interfaces with mode 'bridged' need a link")
    return after


def _mode(value: str) -> NicMode:
    known = [mode for mode in NicMode if mode is not NicMode.POOL]
    for mode in known:
        if mode.value == value:
            return mode
    raise wrong_input(
        f"there is no mode '{value:.40}' of interfaces; known are {', '.join(mode.value for mode in known)}"
    )


def _check_interfaces(config: ConfigIndex, default: NicConnection) -> None:
    """Raises: PrerequisiteError: an interface that inherits the mode would be routed, and has no address."""
    for instance in config.instances:
        for place, nic in enumerate(instance.nics):
            if nic.network is None and not nic.ip and filled(default, nic.nicparams).mode is NicMode.ROUTED:
                raise PrerequisiteError(
                    f"interface {place} of instance '{instance.name}' has no address, which mode 'routed' needs"
                )


def _evolved(full: F, changes: Mapping[str, object]) -> F:
    """The group of parameters with these values, which readers have given their types."""
    return attrs.evolve(full, **changes)  # type: ignore[arg-type]


def _without_defaults(changes: Mapping[str, object | None], what: str) -> dict[str, object]:
    """Raises: PrerequisiteError: 'default' is for objects that inherit, and the cluster does not."""
    for name, value in changes.items():
        if value is None:
            raise wrong_input(f"'{name}' in '{what}' cannot be 'default': the cluster's value is the default")
    return {name: value for name, value in changes.items() if value is not None}


# Hypervisors of the cluster, and their parameters: what is enabled, for all instances and for operating systems. Pure.
#
# A hypervisor that is enabled for the first time gets Ganeti's parameters. Whether nodes have it, is not asked.
#
# Source: opcodes.md 4, CLUSTER_SET_PARAMS; wconfd.md 7.3 and 7.6.


_HYPERVISORS: Final = tuple(each.value for each in Hypervisor)


def with_hypervisors(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex) -> Cluster:
    """The cluster with the hypervisors and the parameters of the opcode. Raises: PrerequisiteError."""
    enabled = cluster.enabled_hypervisors
    if op.enabled_hypervisors is not None:
        enabled = _enabled(cluster, op.enabled_hypervisors, config)
    params = dict(cluster.hvparams)
    for name, values in (op.hvparams or {}).items():
        hypervisor = _hypervisor(name)
        params[hypervisor] = changed_hypervisor_parameters(hypervisor, params.get(hypervisor, {}), values)
    # the daemon refuses a hypervisor without parameters
    params |= {each: DEFAULTS[each] for each in enabled if each not in params}
    os_params = _of_systems(cluster, op)
    return attrs.evolve(cluster, enabled_hypervisors=enabled, hvparams=params, os_hvp=os_params)


def _enabled(cluster: Cluster, wanted: tuple[Hypervisor, ...], config: ConfigIndex) -> tuple[Hypervisor, ...]:
    if not wanted:
        raise wrong_input("a cluster needs at least one hypervisor")
    gone = set(cluster.enabled_hypervisors) - set(wanted)
    for instance in config.instances:
        if instance.hypervisor in gone:
            raise PrerequisiteError(
                f"hypervisor '{instance.hypervisor.value}' cannot be disabled: instance '{instance.name}' uses it"
            )
    return tuple(dict.fromkeys(wanted))


def _of_systems(cluster: Cluster, op: OpClusterSetParams) -> Mapping[str, Mapping[Hypervisor, Params]]:
    """The parameters by operating system; an empty set of one ends it."""
    after = {name: dict(hypervisors) for name, hypervisors in cluster.os_hvp.items()}
    for system, hypervisors in (op.os_hvp or {}).items():
        own = after.setdefault(system, {})
        for name, values in hypervisors.items():
            hypervisor = _hypervisor(name)
            if not isinstance(values, dict):
                own.pop(hypervisor, None)
                continue
            own[hypervisor] = changed_hypervisor_parameters(hypervisor, own.get(hypervisor, {}), values, is_full=False)
    return {name: hypervisors for name, hypervisors in after.items() if any(hypervisors.values())}


def _hypervisor(name: str) -> Hypervisor:
    try:
        return Hypervisor(name)
    except ValueError:
        known = ", ".join(_HYPERVISORS)
        raise wrong_input(f"there is no hypervisor '{name:.40}'; known are {known}") from None


# The network by which instances talk to their node: what must be made of it when the cluster gets one.
#
# Source: opcodes.md 4, CLUSTER_SET_PARAMS; Ganeti's `gnt-cluster modify --instance-communication-network` (known).


_SUBNET: Final = "169.254.0.0/16"
_SUBNET6: Final = "fe80::/10"
_MAC_PREFIX: Final = "52:54:00"
_LINK: Final = "communication_rt"


def check_network(config: ConfigIndex, name: str) -> None:
    """Raises: PrerequisiteError: there is such a network, with other values than it needs."""
    found = _network(config, name)
    if found is not None and (found.network, found.mac_prefix) != (_SUBNET, _MAC_PREFIX):
        raise wrong_input(
            f"network '{name}' cannot be the instances' way to their node: that needs the range {_SUBNET} and the "
            f"MAC prefix {_MAC_PREFIX}"
        )


def jobs_for(config: ConfigIndex, name: str) -> list[JobInput]:
    """The jobs that make the network, if there is none, and connect it to the groups that lack it."""
    found = _network(config, name)
    jobs: list[JobInput] = []
    if found is None:
        jobs.append((_addition(name),))
    uuid = NetworkUuid(found.uuid) if found is not None else None
    for group in config.groups:
        if uuid is None or uuid not in group.networks:
            jobs.append((_connection(name, group.name, depends_on=-len(jobs) if found is None else None),))
    return jobs


def _network(config: ConfigIndex, name: str) -> Network | None:
    return next((each for each in config.networks if each.name == name), None)


def _addition(name: str) -> dict[str, object]:
    return {
        "OP_ID": "OP_NETWORK_ADD",
        "network_name": name,
        "network": _SUBNET,
        "network6": _SUBNET6,
        "mac_prefix": _MAC_PREFIX,
        "conflicts_check": False,
    }


def _connection(name: str, group: str, depends_on: int | None) -> dict[str, object]:
    op = {
        "OP_ID": "OP_NETWORK_CONNECT",
        "group_name": group,
        "network_name": name,
        "network_mode": NicMode.ROUTED.value,
        "network_link": _LINK,
        "conflicts_check": True,
    }
    return op if depends_on is None else {**op, "depends": [[depends_on, ["success"]]]}


# OP_CLUSTER_SET_PARAMS: changes the parameters of the cluster that its configuration alone decides.
#
# Everything is checked before the first change. Parameters that move the master's address are refused. What only nodes
# know (volume groups, helpers, hypervisors) is stored as it is given. A larger pool of candidates is filled at once; a
# smaller one keeps its candidates, as in Ganeti.
#
# Source: opcodes.md 4 and 6.2, CLUSTER_SET_PARAMS.


# parameters that all opcodes have, and one that changes nothing
_COMMON: Final = frozenset({*(field.name for field in attrs.fields(OpCode)), "force"})
_PARAMETERS: Final = tuple(field.name for field in attrs.fields(OpClusterSetParams) if field.name not in _COMMON)
# parameters of the master's address, which luxid has brought up as they were
_OF_MASTER: Final = ("master_netdev", "master_netmask", "use_external_mip_script")


class ClusterSetParamsUnit(LogicalUnit[OpClusterSetParams]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterSetParams

    def check_prereq(self, context: UnitContext) -> None:
        if not any(_is_given(getattr(self.op, name)) for name in _PARAMETERS):
            raise wrong_input("there is nothing to change; name at least one parameter")
        config, op = context.config, self.op
        self._notes: list[str] = []
        _check_address(config.cluster, op)
        cluster = with_inherited(with_hypervisors(config.cluster, op, config), op, config)
        self._after = with_plain(with_storage(cluster, op, config, self._notes), op, self._notes)
        if op.instance_communication_network is not None:
            self._after = attrs.evolve(self._after, instance_communication_network=op.instance_communication_network)
            check_network(config, op.instance_communication_network)
        self._notes += _violations(context, self._after.ipolicy)

    def run(self, context: UnitContext) -> object:
        """Return null, or the jobs that make the network of the instances' communication."""
        for note in self._notes:
            context.feedback(note)
        context.config.change_cluster(self._after)
        if self.op.candidate_pool_size is not None:
            _resize_pool(context, self.op.candidate_pool_size)
        network = self.op.instance_communication_network
        jobs = jobs_for(context.config, network) if network else []
        return {"jobs": context.submit_jobs(jobs)} if jobs else None


def _check_address(cluster: Cluster, op: OpClusterSetParams) -> None:
    for name in _OF_MASTER:
        wanted, now = getattr(op, name), getattr(cluster, name)
        if wanted is not None and wanted != now:
            raise wrong_input(
                f"'{name}' cannot be changed by a job here: the master's address is up with the value {now!r}; "
                "leave it out"
            )


def _violations(context: UnitContext, after: Ipolicy) -> list[str]:
    names = new_cluster_violations(context.config, after)
    if not names:
        return []
    return [f" - WARNING: After the ipolicy change the following instances violate them: {', '.join(names)}"]


def _resize_pool(context: UnitContext, size: int) -> None:
    nodes = context.config.nodes
    promoted = fill_pool(context, nodes, size)
    context.config.change_nodes(promoted.nodes, certificates=promoted.certificates, candidate_pool_size=size)
    promoted.tell(context)
    count = sum(node.master_candidate for node in nodes)
    if count > size:
        context.feedback(f"warning: there are {count} master candidates; end some with: gnt-node modify -C no NODE")


def _is_given(value: object) -> bool:
    """Whether a parameter has a value; Ganeti's clients send empty objects for those that are left out."""
    return value is not None and value != {} and value != AskedNic()

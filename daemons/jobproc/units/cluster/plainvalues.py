"""The parameters of the cluster that depend on no other object: switches, lists, images, collectors of data. Pure.

Source: opcodes.md 4, CLUSTER_SET_PARAMS; wconfd.md 7.3.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from common.errors import PrerequisiteError
from common.objects.cluster import Cluster
from common.opcodes.cluster import OpClusterSetParams
from common.opcodes.types import ListAction
from daemons.jobproc.units.networks.networkvalues import checked_mac_prefix
from daemons.jobproc.units.values.readers import DEFAULT
from daemons.jobproc.units.values.states import changed_disk_state, changed_hv_state

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
                raise _wrong(f"'{name:.40}' in '{what}' of '{system:.40}' must be text")
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
            raise _wrong(
                f"user ids {_range(each)} are not in the pool; it has {', '.join(map(_range, pool)) or 'none'}"
            )
        pool.remove(each)
    for lowest, highest in pool:
        if not 0 <= lowest <= highest <= _UID_MOST:
            raise _wrong(f"user ids cannot be from {lowest} to {highest}; they lie between 0 and {_UID_MOST}")
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
            raise _wrong(f"the {what} knows 'add' and 'remove', not '{action.value}'")
    return tuple(after)


def _image(name: str, image: str) -> str:
    if image and not (image.startswith("/") or re.match(r"(https?|ftp)://\S", image)):
        raise _wrong(f"'{name}' must be a whole path or an address of http, https or ftp, got '{image:.100}'")
    return image


def _tools(tools: tuple[str, ...]) -> tuple[str, ...]:
    for tool in tools:
        if not _TOOL.fullmatch(tool):
            raise _wrong(f"'{tool:.40}' is not the name of a compression tool: letters, digits, - and _ are allowed")
    if _ALWAYS not in tools:
        raise _wrong(f"the compression tool '{_ALWAYS}' cannot be removed; name it among the others")
    return tuple(dict.fromkeys(tools))


def _with_allocator(cluster: Cluster, op: OpClusterSetParams) -> Cluster:
    if op.default_iallocator is not None:
        if op.default_iallocator and not _TOOL.fullmatch(op.default_iallocator):
            raise _wrong(f"'{op.default_iallocator:.60}' is not the name of an allocator; give it without a path")
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
            raise _wrong(f"there is no data collector '{name:.40}'; known are {', '.join(sorted(after))}")
    for name, is_active in (op.enabled_data_collectors or {}).items():
        after[name] = attrs.evolve(after[name], active=is_active)
    for name, interval in (op.data_collector_interval or {}).items():
        if interval < 1:
            raise _wrong(f"the interval of data collector '{name}' must be at least 1 µs, got {interval}")
        after[name] = attrs.evolve(after[name], interval=interval)
    return attrs.evolve(cluster, data_collectors=after)


def _wrong(message: str) -> PrerequisiteError:
    return PrerequisiteError(message, "wrong_input")

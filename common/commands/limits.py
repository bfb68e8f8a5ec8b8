"""Limits of a command by control groups: memory of all its processes together, and processors.

Theory. In version 2 the command's own group takes the limits, if the controllers can be switched on above it. That is
refused where processes live in the group above (no internal processes), and then there is no limit by groups. In
version 1 each controller has a tree of its own, so the command enters one more group for each limit. A group is made
only for a requested limit: a job without limits pays nothing.

Source: DESIGN section 16; everyday.md a, j; cgroup-v2.rst; v1 memory.rst, sched-bwc.rst.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, assert_never

import attrs

from common.commands.cgroups import Group, GroupTree
from common.commands.holding import Way, controller_folder, folder_name
from common.system.log import get_log

MEMORY: Final = "memory"
CPU: Final = "cpu"
_PERIOD_US: Final = 100_000
# name of the file with the memory limit
_MEMORY_FILES: Final = {Way.V2: "memory.max", Way.V1: "memory.limit_in_bytes"}
_log = get_log(__name__)


@attrs.frozen
class Wanted:
    """Limits of a command; None: no limit."""

    # bytes of all its processes together
    memory_bytes: int | None = None
    # processors; 1.5: one and a half
    cpus: float | None = None

    @property
    def controllers(self) -> tuple[str, ...]:
        return tuple(name for name, limit in ((MEMORY, self.memory_bytes), (CPU, self.cpus)) if limit is not None)


@attrs.frozen
class Limited:
    """The groups that carry a command's limits."""

    # controller -> the group with its limit; a missing one has no limit
    by_controller: Mapping[str, Group] = attrs.field(factory=dict)
    # groups to enter besides the command's own, removed after it
    extra: tuple[Group, ...] = ()


def limit_groups(wanted: Wanted, own: Group | None, run_folder: Path, name: str) -> Limited:
    """Set the limits for which this system has groups; the result tells which ones.

    Args:
        own: the command's group, already made; None: there are no groups here.
        name: name for further groups.
    """
    found: dict[str, Group] = {}
    extra = []
    for controller in wanted.controllers:
        group = _own_group(own, controller)
        if group is None and (group := _make_v1(controller, run_folder, name)) is not None:
            extra.append(group)
        if group is None:
            continue
        try:
            _set(group, controller, wanted)
        except OSError as error:
            _log.warning("limit.not_set", controller=controller, folder=group.folder, reason=error)
            continue
        found[controller] = group
    return Limited(found, tuple(extra))


def sweep_limit_groups(run_folder: Path) -> None:
    """Remove the groups that commands of an earlier run have left, if no process lives in them."""
    for controller in (MEMORY, CPU):
        if (tree := _tree(controller, run_folder)) is not None:
            tree.sweep()


def _own_group(own: Group | None, controller: str) -> Group | None:
    """Return the command's group of version 2 with this controller switched on; None: that is not possible."""
    if own is None or own.way is not Way.V2:
        return None
    above = Path(own.folder).parent
    for folder in (above.parent, above):
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
    return own if os.path.exists(f"{own.folder}/{controller}.max") else None


def _make_v1(controller: str, run_folder: Path, name: str) -> Group | None:
    tree = _tree(controller, run_folder)
    try:
        return None if tree is None else tree.make(name)
    except OSError as error:
        _log.debug("limit.no_group", controller=controller, reason=error)
        return None


def _tree(controller: str, run_folder: Path) -> GroupTree | None:
    try:
        mounts, own = Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    place = controller_folder(controller, mounts, own)
    return None if place is None else GroupTree(Way.V1, place, f"{place}/{folder_name(str(run_folder))}", run_folder)


def _set(group: Group, controller: str, wanted: Wanted) -> None:
    """Raises: OSError: the kernel refuses the value."""
    for name, value in _values(group.way, controller, wanted):
        Path(group.folder, name).write_text(value)
    # not available everywhere: no swap beyond the memory limit, and the whole group is killed at once
    with contextlib.suppress(OSError):
        if controller == MEMORY and group.way is Way.V2:
            Path(group.folder, "memory.oom.group").write_text("1")
            Path(group.folder, "memory.swap.max").write_text("0")
        elif controller == MEMORY:
            Path(group.folder, "memory.memsw.limit_in_bytes").write_text(str(wanted.memory_bytes))


def _values(way: Way, controller: str, wanted: Wanted) -> tuple[tuple[str, str], ...]:
    if controller == MEMORY:
        return ((_MEMORY_FILES[way], str(wanted.memory_bytes)),)
    quota = int((wanted.cpus or 0) * _PERIOD_US)
    match way:
        case Way.V2:
            return (("cpu.max", f"{quota} {_PERIOD_US}"),)
        case Way.V1:
            return (("cpu.cfs_period_us", str(_PERIOD_US)), ("cpu.cfs_quota_us", str(quota)))
        case _:
            assert_never(way)

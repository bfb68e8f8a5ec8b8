"""Control groups, one for each command: they are made, entered, ended as a whole, and removed.

If the kernel refuses to remove a group, that is not an error: the next start sweeps it.

Source: DESIGN section 16; everyday.md a; cgroup-v2.rst, v1 freezer-subsystem.rst.
"""

import contextlib
import ctypes
import enum
import fcntl
import hashlib
import os
import re
import select
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, assert_never

import attrs

from common.durable.folders import locked_folder
from common.system.log import get_log

# Ways to hold the processes of a command together, so that all of them can be ended.
#
# Theory. A control group holds all processes that a command starts; without special rights none can leave it. In
# version
# 2 one write ends a whole group. In version 1 the freezer does it: freeze, signal, thaw. Where neither is usable, the
# supervisor's descendants are the group. Versions and mounts do not tell what a system allows, so this module only
# lists places worth a trial, the best one first.
#
# Groups are made below our own group: it is ours, or no program owns the tree. But if a service manager has
# put us into a subgroup of the one it gave us (`DelegateSubgroup=`), they are made in the group above.
#
# Source: DESIGN section 16; everyday.md a, j.


# name for `DelegateSubgroup=` in a drop-in of the unit; systemd 254 and later support it
SUBGROUP: Final = "supervisor"
_SUFFIX: Final = ".cg"
# group made at a start, to see whether groups work
TRIAL_GROUP: Final = "trial.cg"
_GROUP: Final = re.compile(r"(?:job-\d+(?:-detached-\d+)?|command-\d+\.\d+\.\d+|trial)\.cg", re.ASCII)


class Way(enum.Enum):
    """The kind of control group; the value is its name in the settings."""

    V2 = "v2"
    V1 = "v1"


@attrs.frozen
class GroupFolder:
    """An existing folder in which groups can perhaps be made."""

    way: Way
    folder: str


def places(wanted: str, mounts: str, own: str) -> tuple[GroupFolder, ...]:
    """Return the places worth a trial, the best one first.

    Args:
        wanted: `auto`, `v2`, `v1`, or `off`: none.
        mounts: content of /proc/self/mountinfo.
        own: content of /proc/self/cgroup.
    """
    if wanted == "off":
        return ()
    groups = dict(_own_groups(own))
    found = []
    for way, root, point in _mounts(mounts):
        inside = _below(groups.get(way), root)
        if inside is not None and wanted in ("auto", way.value):
            found.append(GroupFolder(way, (point.rstrip("/") + inside).rstrip("/") or "/"))
    return tuple(sorted(found, key=lambda place: list(Way).index(place.way)))


def controller_folder(controller: str, mounts: str, own: str) -> str | None:
    """Return the folder of our own group in the tree of a controller of version 1; None: there is no such tree.

    Args: mounts, own: as for `places`.
    """
    lines = (line.split(":", 2) for line in own.splitlines())
    path = next((path for _, names, path in lines if controller in names.split(",")), None)
    for root, point in _trees_of(controller, mounts):
        inside = _below(path, root)
        if inside is not None:
            return point.rstrip("/") + inside
    return None


def _trees_of(controller: str, mounts: str) -> Iterator[tuple[str, str]]:
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup" and controller in options.split(","):
            root, point = (_unescaped(word) for word in before.split(" ")[3:5])
            yield root, point


def folder_name(run_folder: str) -> str:
    """The name of the folder with the groups of one installation."""
    return f"gantry-{hashlib.sha256(run_folder.encode(errors='surrogateescape')).hexdigest()[:12]}"


def group_name(job_id: int, op_index: int, *, is_detached: bool) -> str:
    """The name of a command's group; no interface file of the kernel has such a name, now or later."""
    return f"job-{job_id}-detached-{op_index}{_SUFFIX}" if is_detached else f"job-{job_id}{_SUFFIX}"


def node_group_name(key: str) -> str:
    """The name of the group of a command that a master runs on this node."""
    return f"command-{key}{_SUFFIX}"


def is_group_name(name: str) -> bool:
    """Whether this is the name of one of our groups."""
    return _GROUP.fullmatch(name) is not None


def _own_groups(text: str) -> Iterator[tuple[Way, str]]:
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield Way.V2, path
        elif "freezer" in controllers.split(","):
            yield Way.V1, path


def _mounts(text: str) -> Iterator[tuple[Way, str, str]]:
    """(way, mounted part of the tree, mount point)"""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = (_unescaped(word) for word in before.split(" ")[3:5])
        if kind == "cgroup2":
            yield Way.V2, root, point
        elif kind == "cgroup" and "freezer" in options.split(","):
            yield Way.V1, root, point


def _below(own: str | None, root: str) -> str | None:
    """Our group as seen from the mount; None: it is outside the mounted part."""
    if own is None:
        return None
    if own.endswith(f"/{SUBGROUP}"):
        own = own.removesuffix(f"/{SUBGROUP}") or "/"
    root = root.rstrip("/")
    if not f"{own}/".startswith(f"{root}/"):
        return None
    return own.removeprefix(root).rstrip("/")


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


_PROCS: Final = "cgroup.procs"
# clone3(2), which has the same number on each machine, and its flag CLONE_INTO_CGROUP: Linux 5.7 and later
_CLONE3: Final = 435
_INTO_CGROUP: Final = 0x2_0000_0000
# seconds for the freezer of version 1 to freeze all processes; the next round meets the others
_FREEZE_S: Final = 0.1
# seconds for the end of the process that a trial kills
_TRIAL_S: Final = 2.0
_log = get_log(__name__)


class _CloneArgs(ctypes.Structure):
    """`struct clone_args` of clone3(2)."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "flags",
            "pidfd",
            "child_tid",
            "parent_tid",
            "exit_signal",
            "stack",
            "stack_size",
            "tls",
            "set_tid",
            "set_tid_size",
            "cgroup",
        )
    )


class ControlGroup:
    """The group of one command; `folder` is its folder in the kernel's tree."""

    def __init__(self, way: Way, folder: str) -> None:
        self.way = way
        self.folder = folder

    def enter(self) -> None:
        """Put this process into the group, and so all that it starts from then on.

        Raises: OSError.
        """
        _write(f"{self.folder}/{_PROCS}", "0")

    def fork(self) -> int | None:
        """As `os.fork`, with the child in the group from its begin; it must soon execute a program, or exit.

        To enter later costs up to 13 ms on an idle machine, as the kernel then waits for all its processors.

        Returns: None: no process was made, as this kernel, kind of group or sandbox does not allow it: fork, and
            `enter`.
        """
        if self.way is not Way.V2:
            return None
        try:
            folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        words = _CloneArgs(flags=_INTO_CGROUP, exit_signal=signal.SIGCHLD, cgroup=folder)
        # the interpreter is prepared, and put right, as by `os.fork`; its lock is held meanwhile
        python = ctypes.pythonapi
        python.PyOS_BeforeFork()
        pid: int = python.syscall(_CLONE3, ctypes.byref(words), ctypes.sizeof(words))
        if pid == 0:
            python.PyOS_AfterFork_Child()
        else:
            python.PyOS_AfterFork_Parent()
        os.close(folder)
        return pid if pid >= 0 else None

    def kill(self) -> None:
        """Send SIGKILL to every process in it, also to those being forked; repeat until the group is empty.

        Raises: OSError: the group is gone, or may not be ended.
        """
        if self.way is Way.V2:
            _write(f"{self.folder}/cgroup.kill", "1")
            return
        self._freeze()
        try:
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    # frozen, so the pid still belongs to it
                    os.kill(pid, signal.SIGKILL)
        finally:
            _write(f"{self.folder}/freezer.state", "THAWED")

    def is_empty(self) -> bool:
        """Whether no process is left in it; zombies do not count. Raises: OSError: this cannot be read."""
        if self.way is Way.V2:
            return "populated 0" in _read(f"{self.folder}/cgroup.events")
        return not self.pids()

    def pids(self) -> frozenset[int]:
        """The processes in it and in groups that the command made below; empty if the group is gone."""
        found: set[int] = set()
        for folder, _, _ in os.walk(self.folder):
            with contextlib.suppress(OSError):
                found.update(map(int, _read(f"{folder}/{_PROCS}").split()))
        return frozenset(found)

    def read(self, name: str) -> str | None:
        """Return the text of an interface file, as `cpu.stat`; None: this system lacks it. Call it before `remove`."""
        try:
            return _read(f"{self.folder}/{name}")
        except OSError:
            return None

    def remove(self) -> bool:
        """Remove it, and groups that the command made below; false: a process lives in it, and it stays."""
        for folder, _, _ in os.walk(self.folder, topdown=False):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                pass
            except OSError:
                return False
        return True

    def _freeze(self) -> None:
        path = f"{self.folder}/freezer.state"
        _write(path, "FROZEN")
        for _ in range(int(_FREEZE_S * 1000)):
            if "FROZEN" in _read(path):
                return
            # the freezer has no event for its completion
            select.select([], [], [], 0.001)


class GroupTree:
    """The folder in which the groups of an installation are made."""

    def __init__(self, way: Way, place: str, folder: str, run_folder: Path) -> None:
        self.way = way
        # group in the tree that existed before us
        self.place = place
        # our folder in it, made when it is needed
        self.folder = folder
        self._run_folder = run_folder

    def make(self, name: str) -> ControlGroup:
        """Make a group for a command; an empty one of that name, left over, is used.

        Raises: OSError.
        """
        group = ControlGroup(self.way, f"{self.folder}/{name}")
        # another of our processes may remove the folder while it is empty
        for _ in range(3):
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.folder)
            try:
                os.mkdir(group.folder)
            except FileExistsError:
                if not group.is_empty():
                    raise
            except FileNotFoundError:
                continue
            return group
        raise FileNotFoundError(f"{self.folder} is removed over and over")

    def group(self, name: str) -> ControlGroup:
        """The group of that name, which may not exist."""
        return ControlGroup(self.way, f"{self.folder}/{name}")

    def sweep(self, kept: Collection[str] = ()) -> None:
        """Remove groups without processes, and the folder if none is left.

        While a command is being started nothing is removed: its group is empty until the command enters.

        Args: kept: names of groups to leave alone.
        """
        with contextlib.suppress(OSError), locked_folder(self._run_folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
            for name in set(self._names()).difference(kept):
                self.group(name).remove()
            self.remove_if_empty()

    def remove_if_empty(self) -> None:
        """Remove the folder if it is empty."""
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)

    def _names(self) -> Iterator[str]:
        with contextlib.suppress(OSError):
            yield from filter(is_group_name, os.listdir(self.folder))


@contextlib.contextmanager
def while_starting(run_folder: Path) -> Iterator[None]:
    """Keep sweeps away, from before the groups of a command are made until it has entered them.

    If the run folder cannot be opened, the log says so, and the command is started nevertheless.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(run_folder, fcntl.LOCK_SH))
        except OSError as error:
            _log.warning(
                "groups.not_locked", folder=run_folder, reason=error, effect="a sweep could remove a new group"
            )
        yield


def find_groups(wanted: str, run_folder: Path) -> GroupTree | None:
    """Return the best tree in which a group can be made, entered and ended, found by trial; None: there is none.

    Args:
        wanted: the setting: `auto`, `v2`, `v1` or `off`.
        run_folder: the installation's; its groups have a folder of their own.
    Cost: one fork for each tried place.
    """
    for place in places(wanted, _text("/proc/self/mountinfo"), _text("/proc/self/cgroup")):
        tree = GroupTree(place.way, place.folder, f"{place.folder}/{folder_name(str(run_folder))}", run_folder)
        try:
            _try(tree)
        except OSError as error:
            _log.debug("cgroups.not_usable", way=place.way.value, folder=place.folder, reason=error)
            continue
        return tree
    return None


def take_groups(wanted: str, run_folder: Path) -> GroupTree | None:
    """As `find_groups`, at the start of a program that starts commands: groups that earlier ones left are removed."""
    groups = find_groups(wanted, run_folder)
    sweep_limit_groups(run_folder)
    if groups is not None:
        groups.sweep()
    return groups


def _try(tree: GroupTree) -> None:
    """Raises: OSError: the tree is not usable."""
    group = tree.make(TRIAL_GROUP)
    try:
        pid, has_entered = _start_in(group)
        try:
            if not has_entered:
                raise PermissionError(f"{group.folder} cannot be entered")
            group.kill()
            _await_end(pid)
        finally:
            # our child, not reaped yet
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    finally:
        group.remove()
        with contextlib.suppress(OSError):
            os.rmdir(tree.folder)


def _await_end(pid: int) -> None:
    fd = os.pidfd_open(pid)
    try:
        if not select.select([fd], [], [], _TRIAL_S)[0]:
            raise TimeoutError("a process outlived the end of its group")
    finally:
        os.close(fd)


def _start_in(group: ControlGroup) -> tuple[int, bool]:
    """Start a process that tries to enter the group, then waits to be killed; return its pid and its success."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            group.enter()
            os.write(writer, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    try:
        return pid, os.read(reader, 1) == b"1"
    finally:
        os.close(reader)


def _text(path: str) -> str:
    try:
        return _read(path)
    except OSError:
        return ""


def _read(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(fd, 2**16):
            pieces.append(piece)
        return b"".join(pieces).decode(errors="surrogateescape")
    finally:
        os.close(fd)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


# Limits of a command by control groups: memory of all its processes together, and processors.
#
# Theory. In version 2 the command's own group takes the limits, if the controllers can be switched on above it. That is
# refused where processes live in the group above (no internal processes), and then there is no limit by groups. In
# version 1 each controller has a tree of its own, so the command enters one more group for each limit. A group is made
# only for a requested limit: a job without limits pays nothing.
#
# Source: DESIGN section 16; everyday.md a, j; cgroup-v2.rst; v1 memory.rst, sched-bwc.rst.


MEMORY: Final = "memory"
CPU: Final = "cpu"
_PERIOD_US: Final = 100_000
# name of the file with the memory limit
_MEMORY_FILES: Final = {Way.V2: "memory.max", Way.V1: "memory.limit_in_bytes"}


@attrs.frozen
class WantedLimits:
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
    by_controller: Mapping[str, ControlGroup] = attrs.field(factory=dict)
    # groups to enter besides the command's own, removed after it
    extra: tuple[ControlGroup, ...] = ()


def limit_groups(wanted: WantedLimits, own: ControlGroup | None, run_folder: Path, name: str) -> Limited:
    """Set the limits for which this system has groups; the result tells which ones.

    Args:
        own: the command's group, already made; None: there are no groups here.
        name: name for further groups.
    """
    found: dict[str, ControlGroup] = {}
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


def _own_group(own: ControlGroup | None, controller: str) -> ControlGroup | None:
    """Return the command's group of version 2 with this controller switched on; None: that is not possible."""
    if own is None or own.way is not Way.V2:
        return None
    above = Path(own.folder).parent
    for folder in (above.parent, above):
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
    return own if os.path.exists(f"{own.folder}/{controller}.max") else None


def _make_v1(controller: str, run_folder: Path, name: str) -> ControlGroup | None:
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


def _set(group: ControlGroup, controller: str, wanted: WantedLimits) -> None:
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


def _values(way: Way, controller: str, wanted: WantedLimits) -> tuple[tuple[str, str], ...]:
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

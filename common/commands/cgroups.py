"""Control groups, one for each command: they are made, entered, ended as a whole, and removed.

If the kernel refuses to remove a group, that is not an error: the next start sweeps it.

Source: DESIGN section 16; everyday.md a; cgroup-v2.rst, v1 freezer-subsystem.rst.
"""

import contextlib
import fcntl
import os
import select
import signal
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from common.commands.holding import TRIAL_GROUP, Way, folder_name, is_group_name, places
from common.system.log import get_log

_PROCS: Final = "cgroup.procs"
# seconds for the freezer of version 1 to freeze all processes; the next round meets the others
_FREEZE_S: Final = 0.1
# seconds for the end of the process that a trial kills
_TRIAL_S: Final = 2.0
_log = get_log(__name__)


class Group:
    """The group of one command; `folder` is its folder in the kernel's tree."""

    def __init__(self, way: Way, folder: str) -> None:
        self.way = way
        self.folder = folder

    def enter(self) -> None:
        """Put this process into the group, and so all that it starts from then on.

        Raises: OSError.
        """
        _write(f"{self.folder}/{_PROCS}", "0")

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

    def make(self, name: str) -> Group:
        """Make a group for a command; an empty one of that name, left over, is used.

        Raises: OSError.
        """
        group = Group(self.way, f"{self.folder}/{name}")
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

    def group(self, name: str) -> Group:
        """The group of that name, which may not exist."""
        return Group(self.way, f"{self.folder}/{name}")

    def sweep(self, kept: Collection[str] = ()) -> None:
        """Remove groups without processes, and the folder if none is left.

        While a command is being started nothing is removed: its group is empty until the command enters.

        Args: kept: names of groups to leave alone.
        """
        with contextlib.suppress(OSError), _locked(self._run_folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
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
            stack.enter_context(_locked(run_folder, fcntl.LOCK_SH))
        except OSError as error:
            _log.warning(
                "groups.not_locked", folder=run_folder, reason=error, effect="a sweep could remove a new group"
            )
        yield


@contextlib.contextmanager
def _locked(run_folder: Path, operation: int) -> Iterator[None]:
    fd = os.open(run_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, operation)
        yield
    finally:
        os.close(fd)


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


def _start_in(group: Group) -> tuple[int, bool]:
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

"""Control groups of a container: one of its own in each tree that the kernel has, so that its limits are real.

systemd-nspawn lets a container write only to the tree of systemd itself. In version 1, that of memory and the others
are made writable by `WRITABLE`, inside the container; what it writes stays below its own group.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from common.commands.cgroups import controller_folder

# controllers of version 1 in whose trees systemd makes groups for services
_CONTROLLERS: Final = ("memory", "cpu", "pids", "freezer", "name=systemd")
# for a shell in the container; the new systemd looks again at what it may write
WRITABLE: Final = """for name in memory cpu pids freezer; do
  [ ! -d /sys/fs/cgroup/$name ] || mount -o remount,bind,rw /sys/fs/cgroup/$name; done
systemctl daemon-reexec"""


class ContainerGroups:
    """The groups of one container. Args: name: unique on this machine."""

    def __init__(self, name: str) -> None:
        self.folders = tuple(f"{folder}/{name}" for folder in _own_folders())

    def make(self) -> None:
        """Raises: OSError: this process may not make groups."""
        for folder in self.folders:
            os.makedirs(folder, exist_ok=True)

    def remove(self) -> None:
        """Remove those that are empty, with the groups below."""
        for folder in self.folders:
            for below, _, _ in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(below)


def _own_folders() -> Iterator[str]:
    mounts, own = Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    for controller in _CONTROLLERS:
        if (folder := controller_folder(controller, mounts, own)) is not None:
            yield folder
    unified = next((line.removeprefix("0::") for line in own.splitlines() if line.startswith("0::")), None)
    point = next((line.split(" ")[4] for line in mounts.splitlines() if " - cgroup2 " in line), None)
    if unified is not None and point is not None:
        yield (point + unified).rstrip("/")

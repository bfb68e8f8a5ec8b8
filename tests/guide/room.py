"""A room: a machine of its own as far as a page can tell, made of the kernel's name spaces in some 0.2 s.

It has its own folders, users, name, processes and network, so that a page shows the paths, ports and names that its
readers have. When it ends, all its processes end, and nothing is left.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Final, Protocol, Self

from tests.support.wait import wait_until

CHECKOUT: Final = Path(__file__).resolve().parents[2]
_SPACES: Final = ("--mount", "--pid", "--net", "--uts")
ADDRESS: Final = "10.0.0.%d"
_ENDING_S: Final = 10.0


class NoRoom(Exception):
    """This machine lets no room be made; tells why."""


class Machine(Protocol):
    """Where a page's commands run: it tells how another process gets in."""

    def way_in(self, user: str) -> list[str]:
        """The words before a command that make this user of the machine run it."""

    def path(self, path: str) -> Path:
        """A path of the machine, as this process reaches it."""

    def power_on(self) -> None:
        """Start it again after it was switched off."""


class Room:
    """A machine of name spaces; a context manager. Implements Machine."""

    def __init__(self, name: str, hosts: Mapping[str, str]) -> None:
        self.name = name
        # it ends with this program, also if that is killed
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", *_SPACES, "--fork", "--kill-child", "--mount-proc"]
        program = Path(__file__).with_name("roominit.py")
        names = json.dumps({"localhost": "127.0.0.1", **hosts})
        with TemporaryFile("w+") as errors:
            self._process = subprocess.Popen(
                [*words, sys.executable, "-P", str(program), name, names, *_kept()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            assert self._process.stdout is not None
            if self._process.stdout.readline() != "ready\n":
                self._process.communicate()
                errors.seek(0)
                raise NoRoom(errors.read().strip() or f"{words[0]} ended with {self._process.returncode}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError, ValueError, FileNotFoundError):
            os.kill(self.pid, signal.SIGKILL)
            # it ends when all that ran in the room has ended
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING_S)
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The room's first process, as seen from outside."""
        (pid,) = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(pid)

    def way_in(self, user: str) -> list[str]:
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net", "--uts"]
        return [*enter, "setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]

    def path(self, path: str) -> Path:
        return Path(f"/proc/{self.pid}/root{path}")

    def power_on(self) -> None:
        """Give it its network back, and an empty folder for what a machine forgets."""
        self._run("umount", "--lazy", "/run")
        self._run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
        if self._has_cable():
            self._run("ip", "link", "set", "eth0", "up")

    def join(self, switch: "Room", number: int) -> None:
        """Plug it into the bridge of another room, with an address of its own."""
        enter = ["nsenter", "--target", str(switch.pid), "--net"]
        cable = ["type", "veth", "peer", "name", "eth0", "netns", str(self.pid)]
        _do(*enter, "ip", "link", "add", f"port{number}", *cable)
        _do(*enter, "ip", "link", "set", f"port{number}", "master", "br0", "up")
        self._run("ip", "address", "add", f"{ADDRESS % number}/24", "dev", "eth0")
        self._run("ip", "link", "set", "eth0", "up")

    def be_switch(self) -> None:
        """Have a bridge for other rooms."""
        self._run("ip", "link", "add", "br0", "type", "bridge")
        self._run("ip", "link", "set", "br0", "up")

    def _has_cable(self) -> bool:
        words = [*self.way_in("root"), "ip", "link", "show", "eth0"]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    def _run(self, *command: str) -> None:
        _do(*self.way_in("root"), *command)


def _do(*command: str) -> None:
    """Raises: NoRoom."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoRoom(f"'{' '.join(command)}' ended with {done.returncode}: {done.stderr.strip()}")


def _kept() -> list[str]:
    """What a room sees of this machine wherever it is: this checkout, and Python with what is installed for it."""
    folders = {CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)}
    return sorted(str(path) for path in folders if path == CHECKOUT or not path.is_relative_to(CHECKOUT))


def wait_for_port(machine: Machine, port: int) -> None:
    """Until a program listens there."""
    probe = [*machine.way_in("root"), "ss", "-Hltn", f"sport = :{port}"]
    wait_until(lambda: bool(subprocess.run(probe, capture_output=True, check=True).stdout), what=f"port {port} is open")

"""A container: a Debian tree in which systemd runs as the first process, without the machine's network.

Nothing of it outlives this program. The container is in a process namespace of its own, below a process that the
kernel kills when this program ends, however it ends; with its first process all die at once. So the end of that
process is also what a power cut is to the programs inside; what they had written to files is still there.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from tests.support.wait import wait_until
from tests.systemd.containers.connection import Connection
from tests.systemd.containers.layers import Layers, mount_script
from tests.systemd.groups import WRITABLE, ContainerGroups

# seconds; a loaded machine needs many times what an idle one does
BOOT_S: Final = 600.0
COMMAND_S: Final = 600.0
# exit code of systemd-nspawn with --keep-unit when the system inside wants to be started again
_REBOOT: Final = 133
_FIRST: Final = "systemd\n"
_BOOT: Final = """set -e
for group in {groups}; do echo $$ > $group/cgroup.procs; done
mount --make-rprivate /
{mount}
exec systemd-nspawn --quiet --directory={folder}/root --boot --machine={name} {network} --register=no \\
  --keep-unit --link-journal=no --resolv-conf=off --timezone=off --console=pipe
"""
_ENVIRONMENT: Final = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
    "HOME=/root",
)


@attrs.frozen
class Ended:
    """A command that has ended."""

    code: int
    # what it wrote, both streams in one
    output: str


class Container:
    """A context manager.

    Args:
        base: the trees, which stay as they are.
        folder: an empty one for what differs from them, on the same disk.
        connection: its place in a network; without one it has none.
    """

    def __init__(self, base: Layers, folder: Path, connection: Connection | None = None) -> None:
        self._base = base
        self.folder = folder
        self._connection = connection
        self._name = f"gantry-{os.getpid()}-{folder.name}"
        self._groups = ContainerGroups(self._name)
        self._process: subprocess.Popen[bytes] | None = None
        self._first = 0

    def __enter__(self) -> Self:
        try:
            self.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cut_power()
        shutil.rmtree(self.folder, ignore_errors=True)

    def boot(self) -> None:
        """Start the system; return when systemd has started all, or has given some up."""
        self.power_on()
        self.until_booted()

    def power_on(self) -> None:
        """Start the system; return at once."""
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._groups.make()
        script = _BOOT.format(
            groups=" ".join(self._groups.folders),
            mount=mount_script(self._base, self.folder),
            folder=self.folder,
            name=self._name,
            network="--private-network" if self._connection is None else self._connection.options,
        )
        enter = [] if self._connection is None else self._connection.enter
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with self._console.open("ab") as console:
            self._process = subprocess.Popen(
                [*enter, "setpriv", "--pdeathsig", "KILL", *namespaces, "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for this program, which then ends the container
                start_new_session=True,
            )

    def until_booted(self) -> None:
        """Wait until systemd has started all, or has given some up."""
        wait_until(self._has_begun, what="systemd to run", timeout_s=BOOT_S, state=self._said)
        wait_until(self._has_booted, what="systemd to start all", timeout_s=BOOT_S, state=self._said)
        self.check(WRITABLE)

    @property
    def is_on(self) -> bool:
        return self._process is not None

    def cut_power(self) -> None:
        """Kill all processes at once; `boot` starts the system again from the same files."""
        if self._process is None:
            return
        pids = [self._process.pid, *_below(self._process.pid)]
        with contextlib.suppress(ProcessLookupError):
            # the first process of the namespace is of this group; at its end the kernel kills all others
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        wait_until(lambda: not any(map(_lives, pids)), what="the end of all processes", timeout_s=BOOT_S)
        self._ended()

    def power_off(self) -> None:
        """Let systemd stop all. Raises: AssertionError: it does not."""
        self._end_by("poweroff", 0)

    def reboot(self) -> None:
        """Let systemd stop all, and start again."""
        self._end_by("reboot", _REBOOT)
        self.boot()

    def run(self, script: str, *, user: str | None = None, limit_s: float = COMMAND_S) -> Ended:
        """Run a shell script inside, by default as root.

        Raises: subprocess.TimeoutExpired: it has not ended in time.
        """
        done = subprocess.run(
            [*self._enter(), "sh", "-c", script] if user is None else [*self._enter(), *_as_user(user), script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
            timeout=limit_s,
            check=False,
        )
        return Ended(done.returncode, done.stdout)

    def check(self, script: str, *, user: str | None = None, limit_s: float = COMMAND_S) -> str:
        """`run`, return the output. Raises: AssertionError: the exit code is not 0."""
        done = self.run(script, user=user, limit_s=limit_s)
        assert done.code == 0, f"exit code {done.code} of {script!r}:\n{done.output}"
        return done.output

    def journal(self, choice: str) -> Sequence[Mapping[str, object]]:
        """The records that journalctl finds. Args: choice: its options and matches."""
        self.check("journalctl --sync")
        return [json.loads(line) for line in self.check(f"journalctl -o json --all {choice}").splitlines()]

    def until_journal(self, choice: str, holds: Callable[[Sequence[Mapping[str, object]]], object], what: str) -> None:
        """Wait until its records, as of `journal`, are so: journald has not read yet all that was written to it."""
        found: list[Sequence[Mapping[str, object]]] = [()]

        def has_come() -> bool:
            found[0] = self.journal(choice)
            return bool(holds(found[0]))

        wait_until(has_come, what=what, timeout_s=COMMAND_S, state=lambda: found[0])

    def shown(self, unit: str, name: str) -> str:
        """The value of a property of a unit, as `systemctl show` tells it."""
        return self.check(f"systemctl show --value --property={name} {unit}").strip()

    def write(self, path: str, text: str) -> None:
        """Write a file inside, with its folder."""
        place = shlex.quote(path)
        self.check(f"mkdir -p $(dirname {place}) && printf %s {shlex.quote(text)} > {place}")

    def put(self, file: Path, path: str) -> None:
        """Copy a file of this machine to a place inside."""
        shutil.copy(file, f"/proc/{self._first}/root/{path.lstrip('/')}")

    @property
    def _console(self) -> Path:
        return self.folder / "console.log"

    def _said(self) -> str:
        return self._console.read_text(errors="backslashreplace")[-2000:]

    def _has_begun(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the container has ended:\n{self._said()}"
        for pid in _below(self._process.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text() == _FIRST:
                    self._first = pid
                    return True
        return False

    def _has_booted(self) -> bool:
        return self.run("systemctl is-system-running").output.strip() in ("running", "degraded")

    def _end_by(self, verb: str, code: int) -> None:
        assert self._process is not None
        process = self._process
        self.run(f"systemctl --no-block {verb}")
        wait_until(lambda: process.poll() is not None, what=f"the {verb}", timeout_s=BOOT_S, state=self._said)
        assert process.returncode == code, f"exit code {process.returncode}:\n{self._said()}"
        self._ended()

    def _ended(self) -> None:
        assert self._process is not None
        self._process.wait()
        self._process = None
        self._groups.remove()

    def _enter(self) -> Sequence[str]:
        place = ["nsenter", "-t", str(self._first), "-m", "-p", "-n", "-u", "-i", "-C"]
        return [*place, "env", "-i", "-C", "/", *_ENVIRONMENT]


def _as_user(user: str) -> Sequence[str]:
    """The beginning of a command that ends with a shell script for the user."""
    with_home = 'export HOME=$(getent passwd "$0" | cut -d: -f6) XDG_RUNTIME_DIR=/run/user/$(id -u "$0"); '
    return [
        "sh",
        "-c",
        f'{with_home} cd "$HOME"; exec setpriv --reuid "$0" --regid "$0" --init-groups sh -c "$1"',
        user,
    ]


def _lives(pid: int) -> bool:
    try:
        # the state follows the name, which is in parentheses
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _below(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            yield child
            yield from _below(child)

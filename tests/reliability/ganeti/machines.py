"""Three machines for a real Ganeti: folders with Debian in them, each in namespaces of its own, on a private network.

Nothing listens outside of them. `Machines` ends all that it started.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

CHECKOUT: Final = Path(__file__).parents[3]
COUNT: Final = 3
PACKAGES: Final = (
    "ganeti ganeti-3.0 ganeti-haskell-3.0 ganeti-htools-3.0 tini iproute2 iputils-arping fping openssh-server procps "
    "python3 ca-certificates"
)
HOSTS: Final = "\n".join(
    ["127.0.0.1 localhost", "10.77.0.100 rg.test"]
    + [f"10.77.0.{number} node{number}.rg.test" for number in range(1, COUNT + 1)]
)
# first process of a machine; {number}, {root}, {base}, {checkout}
_INIT: Final = """set -e
hostname node{number}.rg.test
mount --make-rprivate /
mount -t overlay overlay -o lowerdir={base},upperdir={root}/upper,workdir={root}/work {root}/root
cd {root}/root
mount -t proc proc proc; mount -t tmpfs tmpfs run; mount -t tmpfs tmpfs dev; mount -t sysfs -o ro sysfs sys
for name in null zero full random urandom tty; do touch dev/$name; mount --bind /dev/$name dev/$name; done
ln -s /proc/self/fd dev/fd; mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts; ln -s pts/ptmx dev/ptmx
mkdir -p run/lock run/sshd opt/src; mount --bind {checkout} opt/src
exec chroot {root}/root /usr/bin/tini -g -- /bin/sleep infinity
"""


class Machines:
    """A context manager.

    Args:
        root: a folder, in which the installed Debian is kept for the next time.
        count: of machines.
    """

    def __init__(self, root: Path, count: int = COUNT) -> None:
        self._root = root
        self._count = count
        # first part of the names of namespaces: several programs may have machines at a time
        self._name = f"rg{os.getpid()}"
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        base = self._root / "base"
        if not (base / "ready").exists():
            _install(base)
        _call("ip", "netns", "add", self._bridge)
        _call("ip", "-n", self._bridge, "link", "add", "br0", "up", "type", "bridge")
        for number in range(1, self._count + 1):
            self._connect(number)
            self._boot(number, base)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        for name in [*(self._namespace(number) for number in range(1, self._count + 1)), self._bridge]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def run(self, number: int, script: str, *, limit_s: float = 300) -> str:
        """The output of a shell script on a machine, with its errors and its exit code, if that is not 0."""
        done = subprocess.run(
            [*self.place(number), "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit_s,
            check=False,
        )
        return done.stdout + (f"exit code {done.returncode}\n" if done.returncode else "")

    def on_all(self, script: str) -> None:
        for number in self._processes:
            self.run(number, script)

    def place(self, number: int) -> Sequence[str]:
        """The beginning of a command that is carried out on a machine."""
        place = ["nsenter", "-t", str(self._first(number)), "-m", "-p", "-u", "-n", "-i", "--root", "--wd=/"]
        return [*place, "env", "-i", "-C", "/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"]

    def _first(self, number: int) -> int:
        """The first process of a machine, once it has booted."""
        process = self._processes[number]
        while not (found := _children(process.pid)) or Path(f"/proc/{found[0]}/comm").read_text() != "tini\n":
            assert process.poll() is None, f"machine {number} has not started"
            time.sleep(0.05)
        return found[0]

    @property
    def _bridge(self) -> str:
        return f"{self._name}br"

    def _namespace(self, number: int) -> str:
        return f"{self._name}n{number}"

    def _connect(self, number: int) -> None:
        name = self._namespace(number)
        inside = ("ip", "-n", name)
        _call("ip", "netns", "add", name)
        _call(*inside, "link", "set", "lo", "up")
        _call(*inside, "link", "add", "eth0", "type", "veth", "peer", "name", f"v{number}", "netns", self._bridge)
        _call("ip", "-n", self._bridge, "link", "set", f"v{number}", "master", "br0", "up")
        # the bridge of Ganeti's instances
        _call(*inside, "link", "add", "xen-br0", "up", "type", "bridge")
        _call(*inside, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
        _call(*inside, "link", "set", "eth0", "up")

    def _boot(self, number: int, base: Path) -> None:
        root = self._root / f"node{number}"
        shutil.rmtree(root, ignore_errors=True)
        for name in ("upper", "work", "root"):
            (root / name).mkdir(parents=True)
        script = _INIT.format(number=number, root=root, base=base, checkout=CHECKOUT)
        namespaces = [
            "ip",
            "netns",
            "exec",
            self._namespace(number),
            "unshare",
            "-m",
            "-p",
            "-u",
            "-i",
            "--fork",
            "--kill-child",
        ]
        self._processes[number] = subprocess.Popen([*namespaces, "bash", "-c", script], start_new_session=True)
        self.run(number, "/usr/sbin/sshd")


def _install(base: Path) -> None:
    _call("debootstrap", "--variant=minbase", "bookworm", str(base))
    (base / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (base / "usr/sbin/policy-rc.d").chmod(0o755)
    shutil.copy("/etc/resolv.conf", base / "etc/resolv.conf")
    _call("mount", "-t", "proc", "proc", str(base / "proc"))
    try:
        for command in ("apt-get update", f"apt-get install -y --no-install-recommends {PACKAGES}"):
            _call("chroot", str(base), "env", "DEBIAN_FRONTEND=noninteractive", *command.split())
    finally:
        _call("umount", str(base / "proc"))
    (base / "usr/sbin/policy-rc.d").unlink()
    (base / "etc/hosts").write_text(HOSTS + "\n")
    _make_ssh(base)
    _make_gantry(base)
    (base / "ready").touch()


def _make_ssh(base: Path) -> None:
    keys = base / "root/.ssh"
    keys.mkdir(mode=0o700, exist_ok=True)
    _call("ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(keys / "id_rsa"))
    shutil.copy(keys / "id_rsa.pub", keys / "authorized_keys")
    names = ",".join(["rg.test", *(f"node{number}.rg.test" for number in range(1, COUNT + 1))])
    known = [f"{names} {key.read_text()}" for key in sorted((base / "etc/ssh").glob("ssh_host_*_key.pub"))]
    (base / "etc/ssh/ssh_known_hosts").write_text("".join(known))


def _make_gantry(base: Path) -> None:
    """Gantry from this checkout, with the packages of this environment."""
    assert sys.version_info[:2] == (3, 11), "the packages of this environment are for bookworm's Python"
    programs, packages = base / "opt/gantry/bin", base / "opt/gantry/lib/python3.11/site-packages"
    programs.mkdir(parents=True)
    shutil.copytree(sysconfig.get_paths()["purelib"], packages)
    (packages / "gantry_src.pth").write_text("/opt/src\n")
    (base / "opt/gantry/pyvenv.cfg").write_text("home = /usr/bin\n")
    (programs / "python3").symlink_to("/usr/bin/python3")
    for name in ("luxid", "wconfd", "rapid"):
        (programs / f"gantry-{name}").write_text(
            f"#!/opt/gantry/bin/python3\nfrom daemons.{name}.main import main\nmain()\n"
        )
        (programs / f"gantry-{name}").chmod(0o755)


def _children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def _call(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

"""First process of a room: gives it folders, users and a name of its own, then buries the dead until it is ended.

Run by `Room` under `unshare`, as root, with a mount, a process, a network and a name space of its own. Nothing here
touches the machine outside: each folder that is written to is a new one in memory, and what is kept of the machine's
own is read-only.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

# folders that a room has for itself, empty; of /etc it has a copy
OWN_FOLDERS: Final = ("/home", "/tmp", "/root", "/run", "/srv", "/opt", "/var/lib", "/var/log", "/usr/local/sbin")
# who live there, with their numbers and groups
PEOPLE: Final = {
    "jane": (1000, ()),
    "alice": (1001, ("web",)),
    "bob": (1002, ("web",)),
    "carol": (1003, ("oncall",)),
    "gantry": (990, ()),
}
GROUPS: Final = {"web": 1100, "oncall": 1101}
# never covered: programs and what the kernel shows
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/sys", "/dev", "/etc", "/var")
_POWER_OFF: Final = """#!/bin/sh
# the power is cut: nothing is told, nothing is written
ip link set eth0 down 2>/dev/null
kill -9 -1
"""


def main() -> None:
    name, hosts, *kept = sys.argv[1:]
    os.umask(0o022)
    socket.sethostname(name)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    cover([Path(path) for path in kept])
    people_it(name, json.loads(hosts))
    give_switch(Path("/usr/local/sbin/poweroff"))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    print("ready", flush=True)
    while True:
        signal.sigwait({signal.SIGCHLD})
        bury()


def bury() -> None:
    """Take note of all who have ended, so that they are gone."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def cover(kept: Iterable[Path]) -> None:
    """Lay new folders over those that are written to, but keep these paths readable, for everybody."""
    folders = {Path(folder) for folder in OWN_FOLDERS}
    # a checkout below a folder that only its owner may enter
    folders |= {top for path in kept if str(top := Path(*path.parts[:2])) not in _SYSTEM}
    hidden = [path for path in kept if any(path.is_relative_to(folder) for folder in folders)]
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
    for number, path in enumerate(hidden):
        Path(f"/mnt/{number}").mkdir()
        _mount("--rbind", str(path), f"/mnt/{number}")
        _mount("-o", "remount,bind,ro", f"/mnt/{number}")
    for folder in sorted(folders):
        if folder.is_dir():
            _mount("-t", "tmpfs", "-o", f"mode={1777 if folder.name == 'tmp' else 755}", "tmpfs", str(folder))
    for number, path in enumerate(hidden):
        for entry in Path(f"/mnt/{number}").iterdir():
            _keep(entry, path / entry.name)
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")


def _keep(entry: Path, place: Path) -> None:
    """Show an entry of a kept folder; one by one, as the folder itself may be its owner's alone, too."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if entry.is_symlink():
        place.symlink_to(entry.readlink())
        return
    if entry.is_dir():
        place.mkdir()
    else:
        place.touch()
    _mount("--rbind", str(entry), str(place))
    _mount("-o", "remount,bind,ro", str(place))


def give_switch(path: Path) -> None:
    """A program that cuts the power of the room."""
    path.write_text(_POWER_OFF)
    path.chmod(0o755)


def people_it(name: str, hosts: dict[str, str]) -> None:
    """Give the room its users, groups and names, in an /etc of its own."""
    etc = Path("/etc")
    shutil.copytree(etc, "/mnt/etc", symlinks=True)
    _mount("--bind", "/mnt/etc", str(etc))
    shutil.rmtree(etc / "gantry", ignore_errors=True)
    (etc / "hostname").write_text(f"{name}\n")
    (etc / "hosts").write_text("".join(f"{address} {host}\n" for host, address in hosts.items()))
    (etc / "localtime").unlink(missing_ok=True)
    (etc / "localtime").symlink_to("/usr/share/zoneinfo/Etc/UTC")
    for place in ("passwd", "group"):
        (etc / place).write_text("".join(line for line in (etc / place).open() if _is_of_the_system(line)))
    with (etc / "passwd").open("a") as passwd, (etc / "group").open("a") as group:
        for person, (number, _) in PEOPLE.items():
            home = Path("/home", person)
            passwd.write(f"{person}:x:{number}:{number}::{home}:/bin/bash\n")
            group.write(f"{person}:x:{number}:\n")
            home.mkdir()
            os.chown(home, number, number)
        for group_name, number in GROUPS.items():
            members = [person for person, (_, groups) in PEOPLE.items() if group_name in groups]
            group.write(f"{group_name}:x:{number}:{','.join(members)}\n")


def _is_of_the_system(line: str) -> bool:
    """Whether a row of passwd or group is there on each Debian; people's rows are not."""
    name, _, number, *_ = line.split(":")
    return name not in {*PEOPLE, *GROUPS} and not 1000 <= int(number) < 65534


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    try:
        main()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))

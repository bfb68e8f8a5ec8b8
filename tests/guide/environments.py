"""Where pages run. A page names its environment in its first lines: `environment: three-machines`.

machine             one machine, node1, with nothing started; the page's user is jane. Others that may be named:
                    root, alice and bob (group web), carol (group oncall), gantry
three-machines      node1, node2 and node3 on a network of their own, 10.0.0.1 to 10.0.0.3; the page's user is root
three-machines-etcd the same, with a member of etcd on each, at http://10.0.0.1:2379 and so on
systemd             a Debian machine with the package and a systemd: run by `make test-systemd`, not here

`poweroff` as root cuts the power of its machine; the next command on it starts it again, with what was on its disk.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

import attrs

from tests.guide.room import ADDRESS, Machine, NoRoom, Room, wait_for_port
from tests.support.etcds.etcd import is_etcd_required, needed_etcd, usable_etcd, without_etcd

NODES: Final = {f"node{number}": ADDRESS % number for number in (1, 2, 3)}
# run by a program of its own
ELSEWHERE: Final = {"systemd": "make test-systemd"}
_ETCD: Final = "three-machines-etcd"


@attrs.frozen
class Environment:
    """Machines by name, the first is the page's own; and its user there."""

    machines: Mapping[str, Machine]
    user: str

    @property
    def first(self) -> str:
        return next(iter(self.machines))


@contextmanager
def _machine() -> Iterator[Environment]:
    with Room("node1", {"node1": "127.0.1.1"}) as room:
        yield Environment({"node1": room}, "jane")


@contextmanager
def _three_machines() -> Iterator[Environment]:
    with ExitStack() as ending:
        switch = ending.enter_context(Room("switch", {}))
        switch.be_switch()
        rooms = {}
        for number, name in enumerate(NODES, start=1):
            rooms[name] = ending.enter_context(Room(name, NODES))
            rooms[name].join(switch, number)
        yield Environment(rooms, "root")


@contextmanager
def _with_etcd() -> Iterator[Environment]:
    with _three_machines() as environment:
        for name, machine in environment.machines.items():
            _start_member(name, machine)
        for machine in environment.machines.values():
            wait_for_port(machine, 2379)
        yield environment


def _start_member(name: str, machine: Machine) -> None:
    address = f"http://{NODES[name]}"
    options = {
        "name": name,
        "data-dir": "/var/lib/etcd",
        "listen-client-urls": f"{address}:2379",
        "advertise-client-urls": f"{address}:2379",
        "listen-peer-urls": f"{address}:2380",
        "initial-advertise-peer-urls": f"{address}:2380",
        "initial-cluster": ",".join(f"{node}=http://{ip}:2380" for node, ip in NODES.items()),
    }
    # it ends with its room
    subprocess.Popen(
        [*machine.way_in("root"), needed_etcd().path, *(f"--{option}={value}" for option, value in options.items())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def why_no_rooms() -> str | None:
    """Why this machine lets no room with a network be made; None: one was made, and a command ran in it."""
    if missing := [program for program in ("setpriv", "unshare", "nsenter", "ip") if not shutil.which(program)]:
        return f"there is no {missing[0]!r}"
    try:
        with Room("switch", {}) as switch, Room("node1", NODES) as room:
            switch.be_switch()
            room.join(switch, 1)
            ran = subprocess.run([*room.way_in("jane"), "true"], capture_output=True, text=True, check=False)
    except NoRoom as told:
        return "; ".join(line for line in str(told).splitlines() if line)
    return None if ran.returncode == 0 else f"no command runs in a room: {ran.stderr.strip()}"


def why_not(name: str) -> str | None:
    """Why the pages of an environment cannot run on this machine, where rooms can be made; None: they can."""
    if name in ELSEWHERE:
        return f"run by '{ELSEWHERE[name]}'"
    # where one is required, the page is run, and fails
    lacks_etcd = name == _ETCD and usable_etcd() is None and not is_etcd_required()
    return f"left out: {without_etcd()}" if lacks_etcd else None


ENVIRONMENTS: Final = {"machine": _machine, "three-machines": _three_machines, _ETCD: _with_etcd}

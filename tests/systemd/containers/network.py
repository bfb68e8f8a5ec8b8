"""A network of the test's own: machines at one bridge, in namespaces that nothing else is in.

Each namespace lives as long as a process that waits in it; the kernel kills that when this program ends in any way.
"""

import subprocess
from contextlib import ExitStack
from typing import Final, Self

from tests.systemd.containers.connection import Connection

_SUBNET: Final = "192.0.2"
# it says that its namespace is there, and stays
_HOLDER: Final = "ip link set lo up; echo; exec sleep infinity"
_BRIDGE: Final = "ip link add lan type bridge && ip link set lan up"
# a cable: one end at the bridge, one in the machine
_CABLE: Final = """set -e
ip link add port{number} type veth peer name host0 netns {pid}
ip link set port{number} master lan up
nsenter --net=/proc/{pid}/ns/net sh -ec 'ip address add {address}/24 dev host0; ip link set host0 up'"""


class Network:
    """A context manager."""

    def __init__(self) -> None:
        self._ending = ExitStack()
        self._bridge = 0
        self._count = 0

    def __enter__(self) -> Self:
        try:
            self._bridge = self._namespace()
            self._at_bridge(_BRIDGE)
        except BaseException:
            self._ending.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def connect(self, hostname: str) -> Connection:
        """A place for one more machine."""
        self._count += 1
        made = Connection(hostname, f"{_SUBNET}.{self._count}", self._namespace())
        self._at_bridge(_CABLE.format(number=self._count, pid=made.pid, address=made.address))
        return made

    def _namespace(self) -> int:
        """A process in a new namespace, until the end."""
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", _HOLDER]
        holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        self._ending.callback(holder.wait)
        self._ending.callback(holder.kill)
        assert holder.stdout is not None
        with holder.stdout as said:
            assert said.readline(), "no network namespace could be made"
        return holder.pid

    def _at_bridge(self, script: str) -> None:
        subprocess.run(["nsenter", f"--net=/proc/{self._bridge}/ns/net", "sh", "-c", script], check=True)

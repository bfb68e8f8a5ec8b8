"""The place of a container in a network."""

from collections.abc import Sequence

import attrs


@attrs.frozen
class Connection:
    """Args: pid: a process in the network namespace that is to be the container's."""

    hostname: str
    address: str
    pid: int

    @property
    def enter(self) -> Sequence[str]:
        """The beginning of a command that starts the container."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    @property
    def options(self) -> str:
        """Options of systemd-nspawn, started by `enter`."""
        # named again, as else the container would be refused all rights over a network that it shares
        return "--network-namespace-path=/proc/self/ns/net"

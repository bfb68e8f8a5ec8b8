"""The nodes that calls are sent to.

Source: noded.md sections 1 and 2.
"""

from typing import Final

import attrs

PORT: Final = 1811


@attrs.frozen
class NodeAddress:
    """A node as the configuration has it."""

    name: str
    # its primary address, IPv4 or IPv6; names are not looked up
    ip: str
    port: int = PORT
    # marked offline by an operator: only calls that say so are sent to it
    offline: bool = False

    @property
    def place(self) -> str:
        """Address and port, as in an URL."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"

    def __str__(self) -> str:
        return f"node '{self.name}' at {self.place}"

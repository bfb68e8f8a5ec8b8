"""The master as this node knows it.

Source: noded.md 6; masterfailover.md.
"""

from pathlib import Path

from common.errors import Unavailable
from common.system.inthread import in_thread
from protocol.noded.mastership import MasterNodeName


class MastershipHandlers:
    """Args: master_node: the file of ssconf with the master's name."""

    def __init__(self, master_node: Path) -> None:
        self._master_node = master_node

    async def master_node_name(self, _: MasterNodeName) -> str:
        """The vote of this node. Raises: Unavailable: it knows no master. OSError."""
        return await in_thread(read_master, self._master_node)


def read_master(path: Path) -> str:
    """Return the name of the master. Raises: Unavailable: there is none. OSError."""
    try:
        name = path.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        name = ""
    if not name:
        raise Unavailable(f"this node knows no master: there is nothing in '{path}'")
    return name

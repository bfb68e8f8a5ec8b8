"""The settings file of a machine that joins: written if it is missing, else checked.

Source: DESIGN section 13, "Joining".
"""

from pathlib import Path
from typing import Final

import attrs

from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.errors import Conflict
from common.settings import SYSTEM_FILE, Settings

_MODE: Final = 0o644


@attrs.frozen
class NodeSettings:
    """What the settings of a node must say."""

    node_name: str
    address: str
    port: int

    @property
    def text(self) -> str:
        """The content of a settings file with nothing else."""
        return (
            f'[cluster]\nreplication = "nodes"\nnode_name = "{self.node_name}"\n\n'
            f'[noded]\naddress = "{self.address}"\nport = {self.port}\n'
        )


def settle_settings(settings: Settings, wanted: NodeSettings) -> Path | None:
    """Write the settings file if there is none; return it then.

    Raises: Conflict: there is one that says something else; the message has the lines that it needs.
    Durability: on return the file survives a loss of power.
    """
    if settings.source is None:
        path = SYSTEM_FILE if settings.root is None else settings.root / SYSTEM_FILE.name
        path.parent.mkdir(parents=True, exist_ok=True)
        durably(lambda: write_files([FileWrite(path, wanted.text.encode(), _MODE)]))
        return path
    noded, cluster = settings.noded, settings.cluster
    fits = cluster.has_nodes and cluster.own_name == wanted.node_name and noded.port == wanted.port
    if not fits or noded.address not in ("", wanted.address):
        lines = "; ".join(line for line in wanted.text.splitlines() if line)
        raise Conflict(f"'{settings.source}' does not fit the cluster; let it have these lines: {lines}")
    return None

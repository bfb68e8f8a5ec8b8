"""The settings file of a machine that joins: written if it is missing, else checked.

Source: DESIGN section 13, "Joining".
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from common.asciijson import ascii_json
from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.errors import Conflict
from common.nodes.nodesettings import ConfdSettings, MondSettings
from common.settings import SYSTEM_FILE, Settings

# name of a table -> its keys and values
Tables = Mapping[str, Mapping[str, object]]
_MODE: Final = 0o644


@attrs.frozen
class NodeSettings:
    """What the settings of a node must say."""

    node_name: str
    address: str
    port: int
    # tables of what else is the same on all nodes, see `shared_tables`
    shared: Tables = attrs.field(factory=dict)

    @property
    def text(self) -> str:
        """The content of a settings file with nothing else."""
        return (
            f'[cluster]\nreplication = "nodes"\nnode_name = "{self.node_name}"\n\n'
            f'[noded]\naddress = "{self.address}"\nport = {self.port}\n'
        ) + "".join(f"\n[{name}]\n{_lines(table)}" for name, table in self.shared.items())


def shared_tables(settings: Settings) -> Tables:
    """What all nodes have in common besides the port of their node daemons, as far as it is not the default."""
    found: dict[str, dict[str, object]] = {}
    shared: tuple[tuple[str, ConfdSettings | MondSettings], ...] = (("confd", settings.confd), ("mond", settings.mond))
    for name, own in shared:
        usual = type(own)()
        values: dict[str, object] = {"enabled": own.enabled, "port": own.port}
        if changed := {key: value for key, value in values.items() if value != getattr(usual, key)}:
            found[name] = changed
    return found


def _lines(table: Mapping[str, object]) -> str:
    # strings and numbers are written alike in JSON and TOML
    return "".join(f"{key} = {ascii_json(value).decode()}\n" for key, value in table.items())


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

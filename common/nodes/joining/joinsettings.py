"""The settings file of a machine that joins: written if it is missing, else checked.

Under a lease it names the members of etcd as the master's does. The files for etcd, a password and certificates, are
not sent: a machine must have them before it can be a candidate.

Source: DESIGN sections 13, "Joining", and 14.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from common.asciijson import ascii_json
from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.errors import Conflict
from common.lease.leasesettings import EtcdSettings, KeeperdSettings
from common.nodes.nodesettings import BY_NODES, ConfdSettings, MondSettings
from common.settings import Settings
from common.settingsfile import SYSTEM_FILE

_CLUSTER: Final = "cluster"
# keys that are the same on all nodes; files for etcd have the same places
_ETCD: Final = ("endpoints", "prefix", "user", "password_file", "ca_file", "cert_file", "key_file", "request_timeout_s")
_KEEPERD: Final = ("ttl_s", "test_timings", "port", "stale_s")

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
    def replication(self) -> str:
        return str(self.shared.get(_CLUSTER, {}).get("replication", BY_NODES))

    @property
    def text(self) -> str:
        """The content of a settings file with nothing else."""
        own: Tables = {
            _CLUSTER: {"replication": self.replication, "node_name": self.node_name},
            "noded": {"address": self.address, "port": self.port},
        }
        others = {name: table for name, table in self.shared.items() if name != _CLUSTER}
        return "\n".join(f"[{name}]\n{_lines(table)}" for name, table in {**own, **others}.items())


def shared_tables(settings: Settings) -> Tables:
    """What all nodes have in common besides the port of their node daemons, as far as it is not the default."""
    found: dict[str, dict[str, object]] = {}
    shared: tuple[tuple[str, ConfdSettings | MondSettings], ...] = (("confd", settings.confd), ("mond", settings.mond))
    for name, own in shared:
        usual = type(own)()
        values: dict[str, object] = {"enabled": own.enabled, "port": own.port}
        if changed := {key: value for key, value in values.items() if value != getattr(usual, key)}:
            found[name] = changed
    if settings.cluster.has_lease:
        found[_CLUSTER] = {"replication": settings.cluster.replication}
        found |= _lease_tables(settings)
    return found


def _lease_tables(settings: Settings) -> dict[str, dict[str, object]]:
    tables = (
        ("etcd", _ETCD, settings.etcd, EtcdSettings()),
        ("keeperd", _KEEPERD, settings.keeperd, KeeperdSettings()),
    )
    found: dict[str, dict[str, object]] = {}
    for name, keys, own, usual in tables:
        changed = {key: getattr(own, key) for key in keys if getattr(own, key) != getattr(usual, key)}
        if changed:
            found[name] = changed
    return found


def missing_etcd_files(settings: Settings) -> Sequence[str]:
    """The files that the settings name for etcd, and this machine has not."""
    etcd = settings.etcd
    named = (etcd.ca_file, etcd.cert_file, etcd.key_file, etcd.password_file)
    return [file for file in named if file and not Path(file).exists()]


def _lines(table: Mapping[str, object]) -> str:
    # strings and numbers are written alike in JSON and TOML
    return "".join(f"{key} = {ascii_json(value).decode()}\n" for key, value in table.items())


def settle_settings(settings: Settings, wanted: NodeSettings) -> Path | None:
    """Write the settings into the file if there is none, or one that sets nothing; return it then.

    Raises: Conflict: there is one that says something else; the message has the lines that it needs.
    Durability: on return the file survives a loss of power.
    """
    path = settings.source
    if path is None or not tomllib.loads(path.read_text()):
        # a package brings a file with comments alone; they stay
        kept = "" if path is None else path.read_text()
        path = path or (SYSTEM_FILE if settings.root is None else settings.root / SYSTEM_FILE.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        durably(lambda: write_files([FileWrite(path, (kept + wanted.text).encode(), _MODE)]))
        return path
    noded, cluster = settings.noded, settings.cluster
    fits = (
        cluster.replication == wanted.replication
        and cluster.own_name == wanted.node_name
        and noded.port == wanted.port
        and (not cluster.has_lease or settings.etcd.prefix == _prefix(wanted))
    )
    if not fits or noded.address not in ("", wanted.address):
        lines = "; ".join(line for line in wanted.text.splitlines() if line)
        raise Conflict(f"'{settings.source}' does not fit the cluster; let it have these lines: {lines}")
    return None


def _prefix(wanted: NodeSettings) -> object:
    """The prefix of the cluster's keys in etcd: with another one a node would be a cluster of its own."""
    return wanted.shared.get("etcd", {}).get("prefix", EtcdSettings().prefix)

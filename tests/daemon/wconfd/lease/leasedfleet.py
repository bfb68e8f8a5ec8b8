"""Machines whose wconfd runs under a lease in a real etcd; who is the master is played.

with LeasedFleet(tmp_path, 2, etcd) as machines:
    machines.win(machines.fleet.master)       # its wconfd starts
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import orjson
import trio

from common.lease.changes import MOST_OPERATIONS
from common.lease.records import EtcdKeys
from common.nodes.certificates import digest_of
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Get, Put, Transaction
from tests.support.cluster import Cluster
from tests.support.etcds.etcd import TestEtcd
from tests.support.etcds.playedkeeper import PlayedKeeper
from tests.support.machines.fleet import Fleet

BRITTLE = "tests.daemon.wconfd.lease.brittlewconfd"


class LeasedFleet:
    """A context manager that leaves no process behind."""

    def __init__(self, root: Path, count: int, etcd: TestEtcd) -> None:
        self.fleet = Fleet(root, count)
        self.keys = EtcdKeys(etcd.prefix)
        self._etcd = etcd
        self._keepers: dict[str, PlayedKeeper] = {}
        endpoints = ", ".join(f'"{url}"' for url in etcd.etcd.endpoints)
        for cluster in (self.fleet.master, *(node.cluster for node in self.fleet.nodes)):
            text = (cluster.root / "gantry.toml").read_text().replace('replication = "nodes"', 'replication = "etcd"')
            cluster.configure(f'{text}[etcd]\nendpoints = [{endpoints}]\nprefix = "{etcd.prefix}"\n')
            cluster.modules = {"wconfd": BRITTLE}
        self._name_certificates()

    def _name_certificates(self) -> None:
        """As after the nodes were added: whoever becomes the master is obeyed."""
        config = orjson.loads(self.fleet.master.paths.config_data.read_bytes())
        folders = {"node1.test": self.fleet.master.paths, **{node.name: node.paths for node in self.fleet.nodes}}
        config["cluster"]["candidate_certs"] = {
            uuid: digest_of(folders[node["name"]].client_pem.read_bytes()) for uuid, node in config["nodes"].items()
        }
        self.fleet.master.paths.config_data.write_bytes(orjson.dumps(config))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.fleet.__exit__()

    def win(self, cluster: Cluster, name: str) -> PlayedKeeper:
        """Make this node the master; its daemons may be started."""
        if name not in self._keepers:
            cluster.paths.deadline_file.parent.mkdir(parents=True, exist_ok=True)
            self._keepers[name] = PlayedKeeper(cluster.paths, name, self._etcd.etcd.endpoints[0], self._etcd.prefix)
        self._keepers[name].win()
        return self._keepers[name]

    def begin(self) -> PlayedKeeper:
        """Start the nodes, and wconfd on the first, which is the master."""
        keeper = self.win(self.fleet.master, "node1.test")
        for node in self.fleet.nodes:
            node.start()
        self.fleet.master.start("noded", "wconfd")
        return keeper

    def begin_alone(self) -> PlayedKeeper:
        """Start wconfd on the first node, and nothing else."""
        keeper = self.win(self.fleet.master, "node1.test")
        self.fleet.master.start("wconfd")
        return keeper

    def stored(self, prefix: str | None = None) -> dict[str, bytes]:
        """What is in etcd under a prefix, or of the configuration, by the names below it."""
        start = self.keys.config if prefix is None else prefix

        async def read() -> dict[str, bytes]:
            async with EtcdClient(self._etcd.address()) as client:
                found = await client.get(Get(start, is_prefix=True))
                return {each.key.removeprefix(start): each.value for each in found.values}

        return trio.run(read)

    def put(self, key: str, value: bytes) -> None:
        self.put_all({key: value})

    def put_all(self, pairs: Mapping[str, bytes]) -> None:
        async def write() -> None:
            async with EtcdClient(self._etcd.address()) as client:
                puts = [Put(*pair) for pair in pairs.items()]
                for at in range(0, len(puts), MOST_OPERATIONS):
                    await client.transact(Transaction((), tuple(puts[at : at + MOST_OPERATIONS])))

        trio.run(write)

"""Candidates whose masters are made by a test: real etcd and daemons, no keeperd.

with PlayedMasters(tmp_path, etcd) as nodes:
    nodes.begin("node1.test")         # it wins, and its daemons start
    nodes["node1.test"].cluster.crash()
    nodes.begin("node2.test")
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import trio

from common.lease.changes import CommittedEntry
from common.lease.records import EtcdKeys
from protocol.etcd.client import EtcdClient
from protocol.etcd.commits import read_dirty
from protocol.etcd.kv import Operation, Transaction
from tests.support.etcds.etcd import Etcd
from tests.support.etcds.playedkeeper import PlayedKeeper
from tests.support.machines.leasefleet import Candidate, LeaseFleet
from tests.support.wait import wait_until

MASTERS: Final = ("wconfd", "forkserver", "luxid")


class PlayedMasters:
    """A context manager that leaves no process behind."""

    def __init__(self, root: Path, etcd: Etcd, count: int = 2, *, keeperd: str = "") -> None:
        self.fleet = LeaseFleet(root, etcd, count, keeperd=keeperd)
        self.keys = EtcdKeys(self.fleet.prefix)
        self._etcd = etcd
        self._keepers = {
            each.name: PlayedKeeper(each.paths, each.name, etcd.endpoints[0], self.fleet.prefix) for each in self.fleet
        }

    def __enter__(self) -> Self:
        self.fleet.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.fleet.__exit__()

    def __getitem__(self, name: str) -> Candidate:
        return self.fleet[name]

    def keeper(self, name: str) -> PlayedKeeper:
        return self._keepers[name]

    def begin(self, name: str) -> Candidate:
        """Let a node win, and start its daemons, with all node daemons that do not run yet."""
        cluster = self.fleet[name].cluster
        if "noded" in cluster.daemons:
            # it knows epochs that it was not told
            cluster.kill("noded")
        # a crash has taken the old one's file away
        keeper = PlayedKeeper(self.fleet[name].paths, name, self._etcd.endpoints[0], self.fleet.prefix)
        keeper.win()
        self._keepers[name] = keeper
        for each in self.fleet:
            if "noded" not in each.cluster.daemons:
                each.cluster.start("noded")
        cluster.start(*MASTERS)
        return self.fleet[name]

    def entries(self) -> Mapping[str, CommittedEntry]:
        """What etcd has of files and of running jobs, by the names below the cluster's prefix."""

        async def read() -> Mapping[str, CommittedEntry]:
            async with EtcdClient(self._etcd.address()) as client:
                prefixes = [self.keys.dirty, self.keys.running, self.keys.synceds, self.keys.stales]
                return (await read_dirty(client, prefixes)).entries

        return {key.removeprefix(self.keys.prefix): entry for key, entry in trio.run(read).items()}

    def put(self, *operations: Operation) -> None:
        """Change etcd behind everybody's back."""

        async def put() -> None:
            async with EtcdClient(self._etcd.address()) as client:
                await client.transact(Transaction([], operations))

        trio.run(put)

    def until_forgotten(self) -> None:
        """Wait until all candidates have everything."""

        def left() -> list[str]:
            return [name for name in self.entries() if name.startswith("dirty/")]

        wait_until(lambda: not left(), what="etcd has no entries", state=left)

    def until_synced(self, *names: str) -> None:
        """Wait until these candidates were compared by the present master."""
        epoch = max(each.fence.epoch for keeper in self.fleet if (each := keeper.grant()) is not None)

        def are_synced() -> bool:
            found = self.entries()
            marks = [found.get(f"synced/{name}") for name in names]
            return all(mark is not None and int(mark.value) == epoch for mark in marks)

        wait_until(are_synced, what=f"{names} are synced with epoch {epoch}", state=self.entries)

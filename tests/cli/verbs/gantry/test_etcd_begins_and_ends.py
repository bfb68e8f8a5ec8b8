"""`gantry cluster convert` and `recover`, with a real etcd and no daemons (DESIGN 14; lease.md 4)."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from common.clusterinit import create_cluster
from common.lease.changes import RemovedFile, WrittenFile, encode_fate
from common.lease.records import AcceptedRestore, EtcdKeys, LastMaster, MemberRecord, Role, decode, encode
from common.paths import Paths
from common.system.program import PidFile
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Delete, Get, Put, Transaction
from tests.cli.command import Ended
from tests.cli.programhost import ProgramHost
from tests.support.etcds.etcd import TestEtcd

Run = Callable[..., Ended]
T = TypeVar("T")


class Node:
    """A node whose daemons are down, and the etcd that its settings name."""

    def __init__(self, root: Path, etcd: TestEtcd, host: ProgramHost) -> None:
        self.paths = Paths.under_root(root)
        self.keys = EtcdKeys(etcd.prefix)
        self._root = root
        self._etcd = etcd
        self.run = partial(host.run, "gantry", "--root", root, "cluster")
        root.mkdir()
        self.say("etcd")
        create_cluster(self.paths, "example", "n1")
        self.paths.ssconf_file("master_candidates").chmod(0o644)
        self.candidates("n1")

    def say(self, way: str) -> None:
        """Write the settings."""
        etcd = f'[etcd]\nendpoints = ["{self._etcd.etcd.endpoints[0]}"]\nprefix = "{self._etcd.prefix}"\n'
        text = f'[cluster]\nreplication = "{way}"\nnode_name = "n1"\n{etcd}'
        (self._root / "gantry.toml").write_text(text)

    def candidates(self, *names: str) -> None:
        self.paths.ssconf_file("master_candidates").write_text("".join(f"{name}\n" for name in names))

    def etcd(self, work: Callable[[EtcdClient], Awaitable[T]]) -> T:
        async def run() -> T:
            async with EtcdClient(self._etcd.address()) as client:
                return await work(client)

        return trio.run(run)

    def put(self, key: str, value: bytes) -> None:
        self.etcd(lambda client: client.transact(Transaction([], [Put(key, value)])))

    def remove(self, key: str) -> None:
        self.etcd(lambda client: client.transact(Transaction([], [Delete(key)])))

    def held(self) -> dict[str, bytes]:
        found = self.etcd(lambda client: client.get(Get(self.keys.prefix, is_prefix=True)))
        return {each.key.removeprefix(self.keys.prefix): each.value for each in found.values}


@pytest.fixture
def node(tmp_path: Path, etcd: TestEtcd, host: ProgramHost) -> Node:
    return Node(tmp_path / "r", etcd, host)


def refused(ended: Ended, *words: str) -> None:
    assert ended.code == 1, ended
    assert all(word in ended.err for word in words), ended.err


def test_a_cluster_comes_to_etcd_and_others_must_be_compared_first(node: Node) -> None:
    node.candidates("n1", "n2", "n3")
    node.paths.epoch_file.write_text("4 n1\n")
    before = {path: path.read_bytes() for path in node.paths.data.rglob("*") if path.is_file()}

    done = node.run("convert", "--yes", "--to", "etcd")

    assert done.code == 0, done
    held = node.held()
    assert held["epoch"] == b"5"
    assert decode(held["accepted"], AcceptedRestore, "accepted") == AcceptedRestore(epoch=5, node="n1", by="convert")
    assert {name for name in held if name.startswith("stale/")} == {"stale/n2", "stale/n3"}
    # a candidate with an older configuration is refused by its wconfd
    assert held["kept/config.base"] == str(json.loads(node.paths.config_data.read_bytes())["serial_no"]).encode()
    assert before == {path: path.read_bytes() for path in node.paths.data.rglob("*") if path.is_file()}
    refused(node.run("convert", "--yes"), "etcd has 5 keys of a cluster")


def test_without_a_yes_nothing_is_changed(node: Node) -> None:
    assert node.run("convert").code == 13
    assert node.held() == {}


def test_only_the_master_brings_its_files_and_only_while_nobody_writes(node: Node) -> None:
    node.paths.epoch_file.write_text("4 n2\n")
    refused(node.run("convert", "--yes"), "'n2' has become the master since, with epoch 4")
    node.paths.epoch_file.unlink()
    assert node.run("convert", "--yes", "--to", "nodes").code == 2
    record = MemberRecord(
        node="n2", nonce="1", machine_id="", boot_id="", release="1", state="follow", role=Role.REPLICA
    )
    node.put(node.keys.member("n2"), encode(record))
    refused(node.run("convert", "--yes"), "keeperd runs on 'n2'")
    node.remove(node.keys.member("n2"))
    held = PidFile.take(node.paths.pid_file("luxid"))
    refused(node.run("convert", "--yes"), "luxid runs on this node")
    held.release()
    assert node.held() == {}


def test_a_cluster_leaves_etcd_when_its_files_have_all(node: Node) -> None:
    assert node.run("convert", "--yes").code == 0
    last = LastMaster(node="n1", epoch=6, boot_id="", ttl_s=10, clean=True)
    node.put(node.keys.last_master, encode(last))
    node.put(f"{node.keys.dirty}queue/serial", encode_fate(WrittenFile(b"7\n")))
    node.put(f"{node.keys.dirty}queue/job-3", encode_fate(RemovedFile()))
    node.say("nodes")

    refused(node.run("convert", "--yes"), "this node's files are not those of etcd: 'queue/serial'")
    node.paths.serial_file.write_bytes(b"7\n")
    done = node.run("convert", "--yes")

    assert done.code == 0, done
    assert node.held() == {}
    refused(node.run("convert", "--yes"), "there is nothing to do")


@pytest.mark.parametrize(
    ("last", "word"),
    [
        (LastMaster(node="n2", epoch=6, boot_id="", ttl_s=10, clean=True), "'n2' was the master last, and 1 changes"),
        (LastMaster(node="n1", epoch=6, boot_id="", ttl_s=10), "did not end cleanly"),
    ],
)
def test_what_waits_in_etcd_is_not_thrown_away(node: Node, last: LastMaster, word: str) -> None:
    assert node.run("convert", "--yes").code == 0
    node.put(node.keys.last_master, encode(last))
    node.put(f"{node.keys.dirty}queue/serial", encode_fate(WrittenFile(b"0\n")))
    before = node.held()
    node.say("none")

    refused(node.run("convert", "--yes"), word)

    assert node.held() == before


def test_recover_needs_the_word_and_an_empty_etcd(node: Node) -> None:
    assert node.run("recover").code == 2
    node.put(f"{node.keys.dirty}queue/serial", b"=1\n")
    refused(node.run("recover", "--from-files", "--yes"), "etcd has 1 keys of a cluster")
    node.remove(f"{node.keys.dirty}queue/serial")
    node.paths.epoch_file.write_text("9 n2\n")

    done = node.run("recover", "--from-files", "--yes")

    assert done.code == 0, done
    assert "no candidate had as a file yet" in done.err
    assert decode(node.held()["accepted"], AcceptedRestore, "accepted") == AcceptedRestore(
        epoch=10, node="n1", by="recover"
    )

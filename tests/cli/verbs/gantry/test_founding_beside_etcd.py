"""A cluster with a lease is made only where etcd has none under its prefix. Source: DESIGN section 14."""

from pathlib import Path

import pytest
import trio

from common.lease.records import EtcdKeys, LastMaster, encode
from common.paths import Paths
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Put, Transaction
from tests.cli.programhost import ProgramHost
from tests.support.etcds.etcd import TestEtcd
from tests.support.sockets.ports import free_port

MAKING = pytest.mark.parametrize("words", [("gnt-cluster", "init", "lab"), ("gantry", "up", "--detach")])


def prepare(root: Path, endpoint: str, prefix: str = "/gantry/") -> Paths:
    """An empty root whose settings name this etcd."""
    root.mkdir()
    etcd = f'[etcd]\nendpoints = ["{endpoint}"]\nprefix = "{prefix}"\n'
    (root / "gantry.toml").write_text(f'[cluster]\nreplication = "etcd"\nnode_name = "n1"\n{etcd}')
    return Paths.under_root(root)


def put(etcd: TestEtcd, key: str, value: bytes) -> None:
    async def run() -> None:
        async with EtcdClient(etcd.address()) as client:
            await client.transact(Transaction([], [Put(key, value)]))

    trio.run(run)


def test_where_etcd_has_nothing_it_is_made_and_its_first_campaign_named(
    host: ProgramHost, tmp_path: Path, etcd: TestEtcd
) -> None:
    prepare(tmp_path / "r", etcd.etcd.endpoints[0], etcd.prefix)

    made = host.run("gnt-cluster", "--root", tmp_path / "r", "init", "lab")

    assert made.code == 0
    assert made.err.endswith("; then see its first campaign with: gantry cluster\n")


@MAKING
def test_beside_a_cluster_in_etcd_no_second_one_is_made(
    host: ProgramHost, tmp_path: Path, etcd: TestEtcd, words: tuple[str, ...]
) -> None:
    paths = prepare(tmp_path / "r", etcd.etcd.endpoints[0], etcd.prefix)
    last = LastMaster(node="n7", epoch=12, boot_id="", ttl_s=10)
    put(etcd, EtcdKeys(etcd.prefix).last_master, encode(last))

    refused = host.run(words[0], "--root", tmp_path / "r", *words[1:])

    assert (refused.code, refused.out) == (1, "")
    assert f"a cluster under '{etcd.prefix}' already, whose last master was 'n7' with epoch 12" in refused.err
    for way in ("then gantry join;", "from a backup", "another 'prefix'"):
        assert way in refused.err
    assert not paths.config_data.exists()


def test_a_cluster_without_a_last_master_counts_too(host: ProgramHost, tmp_path: Path, etcd: TestEtcd) -> None:
    prepare(tmp_path / "r", etcd.etcd.endpoints[0], etcd.prefix)
    put(etcd, EtcdKeys(etcd.prefix).epoch, b"1")

    assert host.run("gantry", "--root", tmp_path / "r", "up", "--detach").code == 1


def test_an_etcd_that_was_not_read_is_no_proof_that_there_is_none(host: ProgramHost, tmp_path: Path) -> None:
    paths = prepare(tmp_path / "r", f"http://127.0.0.1:{free_port()}")

    refused = host.run("gantry", "--root", tmp_path / "r", "up", "--detach")

    assert (refused.code, refused.out) == (3, "")
    assert "nothing was made, as etcd may have a cluster already" in refused.err
    assert not paths.config_data.exists()

"""Each change of a key is recorded, whatever becomes of the member that tells of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Delete, Put, Transaction
from tests.reliability.lease.recorder import Recorder
from tests.reliability.lease.reigns import KeyChange
from tests.support.etcds.etcd import Etcd, EtcdBinary


@pytest.fixture
def three(tmp_path: Path, etcd_binary: EtcdBinary) -> Iterator[Etcd]:
    with Etcd(tmp_path, 3, binary=etcd_binary) as etcd:
        yield etcd


def test_changes_are_recorded_in_order_while_members_are_killed(three: Etcd) -> None:
    def change(*operations: Put | Delete) -> int:
        async def ask() -> int:
            async with EtcdClient(three.address()) as client:
                return (await client.transact(Transaction((), operations), 30.0)).header.revision

        return trio.run(ask)

    with Recorder(three, "/a/") as recorder:
        first = change(Put("/a/x", b"1"))
        change(Put("/b/x", b"another's"))
        assert recorder.changes() == [KeyChange(first, "/a/x", b"1")]
        three.members[0].kill()
        second = change(Put("/a/x", b"2"), Put("/a/y", b"2"))
        third = change(Delete("/a/x"))
        last = change(Put("/a/z", b"3"))

        found = recorder.changes()

    assert {(each.key, each.revision, each.value) for each in found[1:3]} == {
        ("/a/x", second, b"2"),
        ("/a/y", second, b"2"),
    }
    assert found[3:] == [KeyChange(third, "/a/x", None), KeyChange(last, "/a/z", b"3")]

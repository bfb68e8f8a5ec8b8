"""What candidates have is forgotten also while etcd takes no marks (DESIGN section 14)."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import attrs
import pytest
import trio
import trio.testing

from common.ids import JobId
from common.lease.changes import CommittedEntry, Dirty, KeyChange
from common.lease.records import EtcdKeys
from common.replica.entries import DirtyEntries
from daemons.luxid.copying.sending import NodeSender
from daemons.luxid.core.copies.backlog import Key
from daemons.luxid.core.copies.etcdentries import JobLivelocks
from daemons.luxid.replicating.shrinking import Shrinking
from protocol.etcd.kv import EtcdFull

pytestmark = pytest.mark.trio
KEYS = EtcdKeys("/gantry/")


@attrs.define
class FullEtcd:
    """Node n2 was compared in epoch 3; nothing may be put."""

    forgotten: trio.Event = attrs.Factory(trio.Event)
    revisions: Mapping[str, int] = attrs.Factory(dict)

    async def commit(self, changes: Sequence[KeyChange]) -> int:
        raise EtcdFull("etcd is full")

    async def forget(self, revisions: Mapping[str, int]) -> None:
        self.revisions = revisions
        self.forgotten.set()

    async def read(self, prefixes: Sequence[str]) -> Dirty:
        return Dirty(1, {KEYS.synced("n2"): CommittedEntry(b"3", 1)})


async def test_a_new_master_forgets_what_its_candidates_have_before_it_can_mark_them(
    autojump_clock: trio.testing.MockClock,
) -> None:
    etcd = FullEtcd()
    has_all = SimpleNamespace(is_compared=True, keys=(), lacks=lambda keys, number: False)
    sender = cast(NodeSender, SimpleNamespace(node=SimpleNamespace(name="n2"), failed_since=None, backlog=has_all))

    def name(key: Key) -> str:
        return f"job-{key}"

    async def without_config() -> frozenset[str]:
        return frozenset()

    shrinking = Shrinking(
        etcd, KEYS, "n1", 4, 600.0, senders=lambda: {"n2": sender}, name=name, without_config=without_config
    )
    entries = DirtyEntries[Key]()
    entries.committed([JobId(7)], 12)
    entries.made([JobId(7)], 0)
    await shrinking.begin()
    shrinking.told.candidates_changed()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shrinking.run, entries, JobLivelocks())
        with trio.fail_after(60):
            await etcd.forgotten.wait()
        nursery.cancel_scope.cancel()

    assert etcd.revisions == {"job-7": 12}

"""The daemons of the master as the lease sees them: they write under the fence, copy, and end at the deadline.

What is acknowledged is written to etcd first, then here; it is removed from etcd when all candidates that are not stale
have it. A new master lays what is in etcd over its own files. Source: DESIGN 14.
"""

from typing import TYPE_CHECKING

import attrs

from common.lease.records import Fence
from tests.property.keeperd.etcdmodel import EtcdModel, Store
from tests.property.keeperd.world import Process

if TYPE_CHECKING:
    from tests.property.keeperd.nodemodel import Node

# seconds that a request of theirs may take
LIMIT_S = 1.0


@attrs.define
class DeadlineCell:
    """The shared memory that one keeperd writes."""

    until: float = 0.0


class Servants:
    """One start of luxid and wconfd. Args: every_s: interval of their writes."""

    def __init__(self, node: "Node", fence: Fence, deadline: DeadlineCell, every_s: float) -> None:
        self.node = node
        self.world = node.world
        self.fence = fence
        self.deadline = deadline
        self.process = Process()
        self.is_ready = False
        self.every_s = every_s
        self._heard = dict.fromkeys(node.peers, self.world.now)
        self._synced: set[str] = set()

    @property
    def is_acting(self) -> bool:
        """Whether its own check would let it act now."""
        runs = self.process.is_alive and self.world.now >= self.process.wakes_at
        return runs and self.node.clock.read(self.world.now) < self.deadline.until

    def start(self) -> None:
        """Read what is in etcd over the own files."""

        def read(etcd: EtcdModel) -> set[int] | None:
            return set(etcd.store.dirty) if etcd.holds(self.fence) else None

        if self._check():
            self.world.call(self.process, self.node.ways, read, self._laid_over, self.start, LIMIT_S)

    def _laid_over(self, dirty: set[int] | None) -> None:
        if dirty is None:
            self._refused()
        elif self._check():
            self.node.files |= dirty
            self.is_ready = True
            self.node.check_nothing_lost(self.fence.epoch)
            self.node.servants_ready(self)
            self._tick()

    def _check(self) -> bool:
        """The guard: end at the deadline."""
        if not self.process.is_alive:
            return False
        if self.node.clock.read(self.world.now) >= self.deadline.until:
            self.process.is_alive = False
            self.world.count("ended by the guard")
            self.node.servants_ended(self)
            return False
        self.node.check_alone()
        return True

    def _tick(self) -> None:
        if not self._check():
            return
        self._write(self.node.next_write())
        self._copy()
        self.world.after(self.every_s, lambda: self.world.deliver(self.process, self._tick))

    def _write(self, number: int) -> None:
        def commit(etcd: EtcdModel) -> bool | None:
            if etcd.is_full:
                return None
            return etcd.fenced(self.fence, self.node.name, lambda store: store.dirty.add(number))

        def again() -> None:
            if self._check():
                self._write(number)

        self.world.call(self.process, self.node.ways, commit, lambda ok: self._written(number, ok), again, LIMIT_S)

    def _written(self, number: int, ok: bool | None) -> None:
        if ok is False:
            self._refused()
        elif ok:
            # acknowledged: it is in etcd, whatever becomes of this process
            self.node.files.add(number)
            self.node.acknowledge(number)

    def _refused(self) -> None:
        self.process.is_alive = False
        self.world.count("write refused")
        self.node.servants_refused(self)

    def _copy(self) -> None:
        """Let the others have what is here; mark those that are away, and those that have come back."""
        for peer in self.node.peers.values():
            if not self.node.reaches(peer):
                if self.world.now > self._heard[peer.name] + self.node.stale_s:
                    self._fenced(lambda store, name=peer.name: store.stale.add(name))  # type: ignore[misc]
                continue
            self._heard[peer.name] = self.world.now
            if peer.name not in self._synced or peer.name in self.world.etcd.store.stale:
                self._synced.add(peer.name)
                self._fenced(lambda store, peer=peer: self._compare(store, peer))  # type: ignore[misc]
            elif peer.name not in self.world.etcd.store.stale:
                peer.files |= self.world.etcd.store.dirty & self.node.files
        self._fenced(self._forget)

    def _compare(self, store: Store, peer: "Node") -> None:
        peer.files = set(self.node.files)
        store.synced[peer.name] = self.fence.epoch
        store.stale.discard(peer.name)

    def _forget(self, store: Store) -> None:
        fresh = [self.node, *(peer for peer in self.node.peers.values() if peer.name not in store.stale)]
        store.dirty -= store.dirty.intersection(*(node.files for node in fresh))

    def _fenced(self, change: "Change") -> None:
        def carry_out(etcd: EtcdModel) -> bool:
            return etcd.fenced(self.fence, self.node.name, change)

        self.world.call(self.process, self.node.ways, carry_out, lambda _: None, lambda: None, LIMIT_S)


if TYPE_CHECKING:
    from collections.abc import Callable

    Change = Callable[[Store], object]

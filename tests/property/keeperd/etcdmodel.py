"""An etcd in memory: keys, revisions, leases that its own clock ends, snapshots. Source: lease.md 4."""

import copy
from collections.abc import Callable

import attrs

from common.lease.records import (
    AcceptedRestore,
    Fence,
    LastMaster,
    Maintenance,
    MasterRecord,
    MemberRecord,
    OperatorRequest,
)
from daemons.keeperd.core.states import View

# seconds by which a lease may end late
LATE_S = 1.0
# seconds until etcd has a leader again
ELECTION_S = 1.5


@attrs.define
class Lease:
    ttl_s: float
    ends_at: float


@attrs.define
class Store:
    """All that a snapshot has."""

    cluster_id: str = "c1"
    revision: int = 1
    master: MasterRecord | None = None
    master_revision: int = 0
    master_lease: int = 0
    epoch: int = 0
    epoch_revision: int = 0
    last_master: LastMaster | None = None
    maintenance: Maintenance | None = None
    wanted: OperatorRequest | None = None
    accepted: AcceptedRestore | None = None
    stale: set[str] = attrs.field(factory=set)
    synced: dict[str, int] = attrs.field(factory=dict)
    # numbers of writes that some candidate may lack
    dirty: set[int] = attrs.field(factory=set)
    leases: dict[int, Lease] = attrs.field(factory=dict)


class EtcdModel:
    """Args: changed: called when the key of the master, or a wish, has changed."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.store = Store()
        self.down_until = 0.0
        self.is_full = False
        self._changed = changed
        self._next_lease = 100
        # which nodes have written, by epoch
        self.writers: dict[int, set[str]] = {}
        # all epochs that were won, in order
        self.won: list[int] = []

    def put(self) -> int:
        self.store.revision += 1
        return self.store.revision

    def expire(self, now: float) -> None:
        """End the leases whose time is over."""
        for lease_id, lease in list(self.store.leases.items()):
            if now >= lease.ends_at:
                self.revoke(lease_id)

    def grant(self, ttl_s: float, now: float, late: float) -> int | None:
        if self.is_full:
            return None
        self._next_lease += 1
        self.store.leases[self._next_lease] = Lease(ttl_s, now + ttl_s + late * LATE_S)
        return self._next_lease

    def renew(self, lease_id: int, now: float, late: float) -> bool:
        lease = self.store.leases.get(lease_id)
        if lease is None:
            return False
        lease.ends_at = now + lease.ttl_s + late * LATE_S
        return True

    def revoke(self, lease_id: int) -> None:
        self.store.leases.pop(lease_id, None)
        if self.store.master is not None and self.store.master_lease == lease_id:
            self.remove_master()

    def remove_master(self) -> None:
        self.store.master, self.store.master_revision, self.store.master_lease = None, 0, 0
        self.put()
        self._changed()

    def campaign(
        self, record: MasterRecord, lease_id: int, epoch_revision: int, last: LastMaster
    ) -> tuple[Fence | None, MasterRecord | None, int]:
        """Return the fence if it was won; and the present key, for a campaign of unknown outcome."""
        store = self.store
        is_free = store.master is None and store.epoch_revision == epoch_revision
        if not is_free or lease_id not in store.leases or self.is_full:
            return None, store.master, store.master_revision
        revision = self.put()
        store.master, store.master_revision, store.master_lease = record, revision, lease_id
        store.epoch, store.epoch_revision, store.last_master = record.epoch, revision, last
        self.won.append(record.epoch)
        self._changed()
        return Fence(record.epoch, revision, revision), record, revision

    def holds(self, fence: Fence) -> bool:
        store = self.store
        return store.master_revision == fence.master_revision and store.epoch_revision == fence.epoch_revision

    def fenced(self, fence: Fence, node: str, change: Callable[[Store], object]) -> bool:
        """Carry the change out if the fence holds."""
        if not self.holds(fence):
            return False
        self.writers.setdefault(fence.epoch, set()).add(node)
        change(self.store)
        self.put()
        return True

    def release(self, fence: Fence, lease_id: int, *, clean: bool) -> None:
        store = self.store
        if self.holds(fence):
            if clean and store.last_master is not None:
                store.last_master = attrs.evolve(store.last_master, clean=True)
            self.remove_master()
        self.revoke(lease_id)

    def accept(self, accepted: AcceptedRestore) -> None:
        if self.store.accepted is not None and self.store.accepted.epoch >= accepted.epoch:
            return
        self.store.epoch, self.store.epoch_revision = accepted.epoch, self.put()
        self.store.accepted = accepted
        self.store.stale.discard(accepted.node)
        self.remove_master()

    def want(self, wanted: OperatorRequest | None) -> None:
        self.store.wanted = wanted
        self.put()
        self._changed()

    def maintain(self, maintenance: Maintenance | None) -> None:
        self.store.maintenance = maintenance
        self.put()
        self._changed()

    def forget_epoch(self) -> None:
        """Somebody has removed the key by hand."""
        self.store.epoch, self.store.epoch_revision = 0, 0
        self.put()

    def elect(self, now: float) -> None:
        """A new leader gives every lease its whole time again, after the election."""
        self.down_until = max(self.down_until, now + ELECTION_S)
        for lease in self.store.leases.values():
            lease.ends_at = self.down_until + lease.ttl_s

    def snapshot(self) -> Store:
        return copy.deepcopy(self.store)

    def restore(self, snapshot: Store, now: float, cluster_id: str | None) -> None:
        self.store = copy.deepcopy(snapshot)
        self.store.cluster_id = cluster_id or self.store.cluster_id
        for lease in self.store.leases.values():
            lease.ends_at = now + lease.ttl_s
        self._changed()

    def view(self, node: str, others: dict[str, MemberRecord], *, has_twin: bool) -> View:
        store = self.store
        return View(
            cluster_id=store.cluster_id,
            revision=store.revision,
            master=store.master,
            master_revision=store.master_revision,
            epoch=store.epoch,
            epoch_revision=store.epoch_revision,
            last_master=store.last_master,
            maintenance=store.maintenance,
            wanted=store.wanted,
            is_stale=node in store.stale,
            synced=store.synced.get(node, 0),
            others=others,
            has_twin=has_twin,
            accepted=store.accepted,
            is_full=self.is_full,
        )

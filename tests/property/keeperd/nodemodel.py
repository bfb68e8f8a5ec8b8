"""One machine: its clock, its disk, its noded, its keeperd, the daemons of the master; and what must hold of them."""

import attrs

from common.lease.records import Fence, MemberRecord
from daemons.keeperd.core.events import (
    Act,
    Campaign,
    DaemonsFailed,
    DaemonsReady,
    FenceRefused,
    Release,
    StartDaemons,
    TellNodes,
)
from daemons.keeperd.core.keeper import Me
from daemons.keeperd.core.states import ROLES, NodeMemory, State, View
from tests.property.keeperd.servantsmodel import Servants
from tests.property.keeperd.shellmodel import ShellModel
from tests.property.keeperd.world import Clock, Process, Ways, World

# acts at which a keeperd dies, now and then
_CRASHES = (Campaign, TellNodes, StartDaemons, Release)


class Cluster:
    """What is known of all nodes, and of what was acknowledged."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.nodes: dict[str, Node] = {}
        self.acknowledged: set[int] = set()
        self.written = 0
        # until when two nodes may think that they may act: a lease was taken away by force
        self.forced_until = 0.0
        # after an acceptance: what its node has is what there is
        self.is_reset = False

    def forced(self, seconds: float) -> None:
        self.forced_until = max(self.forced_until, self.world.now + seconds)

    def settle(self) -> None:
        """Forget writes that everybody has, so that a month stays small."""
        # a reply may still be on its way for others
        everywhere = self.acknowledged.intersection(*(node.files for node in self.nodes.values()))
        everywhere -= self.world.etcd.store.dirty
        for node in self.nodes.values():
            node.files -= everywhere
        self.acknowledged -= everywhere


class Node:
    def __init__(self, cluster: Cluster, me: Me, *, every_s: float, stale_s: float) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.me = me
        self.name = me.node
        self.every_s = every_s
        self.stale_s = stale_s
        self.clock = Clock()
        self.ways = Ways()
        self.memory = NodeMemory()
        self.noded_epoch = 0
        self.noded_down_until = 0.0
        self.files: set[int] = set()
        self.servants: Servants | None = None
        self.keeperd: ShellModel | None = None
        self.down_until = 0.0
        self.twin_until = 0.0
        self.disk_delay_s = 0.0
        self.has_stale_reads = False
        self.old_view: View | None = None
        # whether keeperd dies at its next step of this kind
        self.crash_chance = 0.0
        self.fails_until = 0.0
        self.reasons: tuple[str, ...] = ()
        self._boots = 0
        cluster.nodes[self.name] = self
        self.world.watchers.append(self._watch)

    @property
    def boottime(self) -> float:
        return self.clock.read(self.world.now)

    @property
    def peers(self) -> "dict[str, Node]":
        return {name: node for name, node in self.cluster.nodes.items() if node is not self}

    def all_nodes(self) -> "list[Node]":
        return list(self.cluster.nodes.values())

    def reaches(self, peer: "Node") -> bool:
        now = self.world.now
        is_linked = peer is self or now >= max(self.ways.alone_until, peer.ways.alone_until)
        return is_linked and now >= max(peer.down_until, peer.noded_down_until)

    def reachable_epoch(self) -> int:
        return max((peer.noded_epoch for peer in self.all_nodes() if self.reaches(peer)), default=0)

    def living_peers(self) -> dict[str, MemberRecord]:
        """What the others have said of themselves."""
        return {peer.name: peer.member() for peer in self.peers.values() if peer.is_heard}

    @property
    def is_heard(self) -> bool:
        return self.keeperd is not None and self.keeperd.process.is_alive and self.world.now >= self.ways.cut_until

    def member(self) -> MemberRecord:
        assert self.keeperd is not None
        return MemberRecord(
            node=self.name,
            nonce="",
            machine_id=self.name,
            boot_id=self.me.boot_id,
            release="1",
            state=self.keeperd.state.value,
            role=ROLES[self.keeperd.state],
            reasons=self.keeperd.reasons(),
            priority=self.me.priority,
        )

    # what happens to it

    def start(self) -> None:
        if self.world.now >= self.down_until and not (self.keeperd and self.keeperd.process.is_alive):
            self.keeperd = ShellModel(self)

    def kill_keeperd(self, seconds: float) -> None:
        if self.keeperd is not None:
            self.keeperd.process.is_alive = False
        self.world.after(seconds, self.start)

    def keeperd_ended(self) -> None:
        self.world.after(2.0, self.start)

    def crash_now_and_then(self, act: Act) -> None:
        if isinstance(act, _CRASHES) and self.world.random.random() < self.crash_chance:
            self.world.tell(f"{self.name}: keeperd dies at {type(act).__name__}")
            # the requests of a campaign may be on their way
            later = self.world.random.uniform(0.0, 4.0 * self.ways.delay_s) if isinstance(act, Campaign) else 0.0
            pause = self.world.random.uniform(0.05, 3.0)
            if later:
                self.world.after(later, lambda: self.kill_keeperd(pause))
            else:
                self.kill_keeperd(pause)

    def power_off(self, seconds: float) -> None:
        self.down_until = max(self.down_until, self.world.now + seconds)
        for process in self.processes():
            process.is_alive = False
        self._boots += 1
        self.me = attrs.evolve(self.me, boot_id=f"{self.name}-{self._boots}")
        self.clock = Clock(at=self.down_until, shows=5.0, rate=self.clock.rate)
        self.world.at(self.down_until, self.start)

    def processes(self) -> list[Process]:
        owners = (self.keeperd, self.servants)
        return [owner.process for owner in owners if owner is not None]

    def stop(self, seconds: float, *, keeperd: bool, servants: bool) -> None:
        """SIGSTOP, SIGCONT."""
        for owner, is_meant in ((self.keeperd, keeperd), (self.servants, servants)):
            if owner is not None and is_meant:
                owner.process.stopped_until = max(owner.process.stopped_until, self.world.now + seconds)

    def _watch(self) -> None:
        if self.keeperd is not None and self.world.now >= self.ways.cut_until:
            self.world.deliver(self.keeperd.process, self.keeperd.look)

    # the daemons of the master

    def start_servants(self, fence: Fence, keeperd: ShellModel) -> None:
        if self.servants is not None and self.servants.process.is_alive:
            if self.servants.fence == fence:
                return
            raise self.world.broken(f"{self.name}: daemons of epoch {self.servants.fence.epoch} live at a start")
        if self.world.now < self.fails_until:
            keeperd.servants_failed(DaemonsFailed(fence.epoch, "it does not start"))
            return
        self.servants = servants = Servants(self, fence, keeperd.deadline, self.every_s)
        self.check_alone()
        delay = self.world.random.uniform(0.2, 1.0)
        self.world.after(delay, lambda: self.world.deliver(servants.process, servants.start))

    def kill_servants(self) -> None:
        if self.servants is not None and self.servants.process.is_alive:
            self.servants.process.is_alive = False
            self.servants_ended(self.servants)

    def servants_ended(self, servants: Servants) -> None:
        """They have ended without being asked to; keeperd sees that of the daemons of its mastership."""
        if self.keeperd is not None:
            self.keeperd.servants_failed(DaemonsFailed(servants.fence.epoch, "they have ended"))

    def servants_ready(self, servants: Servants) -> None:
        if self.keeperd is not None:
            self.keeperd.handle(DaemonsReady(servants.fence.epoch))

    def servants_refused(self, servants: Servants) -> None:
        if self.keeperd is not None:
            self.keeperd.handle(FenceRefused(servants.fence.epoch))

    def next_write(self) -> int:
        self.cluster.written += 1
        return self.cluster.written

    def acknowledge(self, number: int) -> None:
        self.cluster.acknowledged.add(number)

    # what must hold

    @property
    def is_acting(self) -> bool:
        return self.servants is not None and self.servants.is_acting

    def check_alone(self) -> None:
        """By true time at most one node may act, but after a lease was taken away by force."""
        if self.world.now < self.cluster.forced_until or not self.is_acting:
            return
        acting = [node.name for node in self.all_nodes() if node.is_acting]
        if len(acting) > 1:
            raise self.world.broken(f"{acting} act at the same time")

    def check_key(self) -> None:
        """No keeper holds a mastership by the key of an earlier one of its name."""
        held = self.keeperd.keeper.held if self.keeperd is not None else None
        present = self.world.etcd.store.master
        if held is None or present is None or not self.world.etcd.holds(held.fence):
            return
        if present.nonce != held.record.nonce:
            raise self.world.broken(f"{self.name} holds the key of another process")

    def check_released(self, *, clean: bool) -> None:
        if clean and self.servants is not None and self.servants.process.is_alive:
            raise self.world.broken(f"{self.name} gives its lease back while its daemons live")

    def check_nothing_lost(self, epoch: int) -> None:
        """A new master has all that was ever acknowledged."""
        cluster = self.cluster
        if cluster.is_reset:
            cluster.is_reset = False
            cluster.acknowledged &= self.files
        lost = cluster.acknowledged - self.files
        if lost:
            raise self.world.broken(f"{self.name}, master of epoch {epoch}, lacks {len(lost)} acknowledged writes")

    @property
    def is_master(self) -> bool:
        return self.is_acting and self.keeperd is not None and self.keeperd.state in (State.MASTER, State.SHAKY)

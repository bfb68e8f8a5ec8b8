"""Random faults for three nodes, and the checks that go with them. Source: lease.md 9, by their numbers there."""

import itertools
from collections.abc import Callable, Mapping

import attrs

from common.lease.records import Maintenance, OperatorRequest, WantedKind
from daemons.keeperd.core.events import FitnessChanged, RestoreAccepted, StopAsked
from daemons.keeperd.core.keeper import Me
from daemons.keeperd.core.states import State
from tests.property.keeperd.etcdmodel import Store
from tests.property.keeperd.nodemodel import Cluster, Node
from tests.property.keeperd.world import Ways, World, pick


@attrs.frozen
class Plan:
    ttl_s: float = 10.0
    # mean seconds between two faults of a storm
    gap_s: float = 25.0
    storm_s: float = 1200.0
    # seconds without faults, at the end of which somebody must be the master
    calm_s: float = 150.0
    # seconds between two writes of the master
    every_s: float = 1.0
    stale_s: float = 60.0
    has_restores: bool = True
    # beginnings of the names of the faults; empty: all
    only: tuple[str, ...] = ()


class Torment:
    def __init__(self, seed: int, plan: Plan) -> None:
        self.plan = plan
        self.world = World(seed)
        self.random = self.world.random
        self.cluster = Cluster(self.world)
        ttl = plan.ttl_s
        # 45, 66: priorities, another lease on one node
        for name, priority, lease, dog in (("n1", 2, ttl, 0.0), ("n2", 1, ttl, ttl // 2), ("n3", 1, ttl * 1.5, 0.0)):
            me = Me(node=name, boot_id=f"{name}-0", ttl_s=lease, priority=priority, watchdog_s=dog)
            Node(self.cluster, me, every_s=plan.every_s, stale_s=plan.stale_s).start()
        self.snapshots: list[tuple[float, Store]] = []
        self.storm_until = 0.0
        self.is_in_doubt = False
        self.calm_masters: list[str] = []
        self.vacant_s: list[float] = []
        self._changes = 0
        self._faults: Mapping[str, tuple[float, Callable[[Node], None]]] = self._table()

    def run(self, seconds: float) -> None:
        end = self.world.now + seconds
        while self.world.now < end:
            self._storm()
            self._calm()

    # storms

    def _storm(self) -> None:
        self.storm_until = self.world.now + self.plan.storm_s * self.random.uniform(0.3, 1.0)
        while self.world.now < self.storm_until:
            self.world.run(self.world.now + self.random.expovariate(1 / self.plan.gap_s))
            self._fault()
            self.cluster.settle()

    def _fault(self) -> None:
        name = pick(self.world, {name: weight for name, (weight, _) in self._faults.items()})
        masters = [node for node in self.cluster.nodes.values() if node.is_master]
        node = masters[0] if masters and self.random.random() < 0.6 else self.random.choice(self._nodes())
        self.world.tell(f"-- {name} ({node.name})")
        self.world.count(f"fault: {name}")
        self._faults[name][1](node)

    def _nodes(self) -> list[Node]:
        return list(self.cluster.nodes.values())

    def _some(self, most: float) -> float:
        return self.random.uniform(0.05, most)

    def _table(self) -> Mapping[str, tuple[float, Callable[[Node], None]]]:
        ttl = self.plan.ttl_s
        faults: dict[str, tuple[float, Callable[[Node], None]]] = {
            "1 kill keeperd": (3, lambda node: node.kill_keeperd(self._some(4))),
            "2 kill the daemons": (2, Node.kill_servants),
            "5 kill all": (1, self._kill_all),
            "6 power off": (2, lambda node: node.power_off(self._some(200))),
            "7 stop keeperd": (3, lambda node: node.stop(self._some(2 * ttl), keeperd=True, servants=False)),
            "8 stop the daemons": (2, lambda node: node.stop(self._some(2 * ttl), keeperd=False, servants=True)),
            "9 stop everything": (3, lambda node: node.stop(self._some(3 * ttl), keeperd=True, servants=True)),
            "11 suspend": (0.3, lambda node: node.stop(self._some(3600), keeperd=True, servants=True)),
            "13 clock rate": (1, lambda node: node.clock.set_rate(self.random.uniform(0.95, 1.05), self.world.now)),
            "14 etcd elects": (3, lambda _: self.world.etcd.elect(self.world.now)),
            "15 old leader revokes": (1, self._revoke),
            "15 stopped member": (2, self.hold),
            "16 etcd flaps": (0.5, self._flap),
            "17 etcd away": (3, self._etcd_away),
            "19 cut from etcd": (3, self._cut),
            "20 cut from nodes": (2, self._alone),
            "22 replies lost": (3, self._mute),
            "23 slow": (2, lambda node: self._way(node, delay_s=self._some(2.0))),
            "24 loss": (2, lambda node: self._way(node, loss=0.2)),
            "25 answered, heard late": (2, self._late_answer),
            "27 etcd full": (1, self._full),
            "37 node knows more": (0.3, self._node_knows_more),
            "the node daemon is down": (1, self._node_daemon_down),
            "39 key removed by hand": (0.5, self._remove_key),
            "46 twin": (0.5, lambda node: setattr(node, "twin_until", self.world.now + self._some(60))),
            "49 crash at a step": (2, self._crash_at_steps),
            "49 crash of the last one": (1, self._last_one_crashes),
            "51 switchover": (3, self._switchover),
            "53 maintenance": (0.7, self._maintenance),
            "54 maintenance lost": (0.3, lambda _: self.world.etcd.maintain(None)),
            "55 daemons hang": (1, self._hang),
            "57 starved": (1, self._starve),
            "59 disk full": (1, self._disk_full),
            "61 slow disk": (1, self._slow_disk),
            "stale linear reads": (0.5, self._stale_reads),
            "daemons do not start": (1, lambda node: setattr(node, "fails_until", self.world.now + self._some(120))),
            "machine stops cleanly": (1, self._stop_asked),
        }
        if self.plan.has_restores:
            faults["34 restored"] = (0.4, self._restore)
            faults["38 epoch removed by hand"] = (0.15, self._remove_epoch)
        only = self.plan.only
        return {name: fault for name, fault in faults.items() if not only or name.startswith(only)}

    def _kill_all(self, node: Node) -> None:
        node.kill_keeperd(self._some(4))
        node.kill_servants()

    def _revoke(self, _: Node) -> None:
        self.cluster.forced(2 * self.plan.ttl_s)
        self.world.etcd.revoke(self.world.etcd.store.master_lease)

    def hold(self, node: Node, most: float = 15.0) -> None:
        node.ways.held_until = self.world.now + self._some(most)

    def _flap(self, _: Node) -> None:
        for number in range(10):
            self.world.after(3.0 * number, lambda: self.world.etcd.elect(self.world.now))

    def _etcd_away(self, _: Node) -> None:
        """17, 18: for about a lease."""
        ttl = self.plan.ttl_s
        self.world.etcd.down_until = self.world.now + self.random.choice([self._some(ttl), ttl - 1, ttl + 1, 3 * ttl])

    def _cut(self, node: Node) -> None:
        node.ways.cut_until = self.world.now + self._some(4 * self.plan.ttl_s)

    def _alone(self, node: Node) -> None:
        node.ways.alone_until = self.world.now + self._some(200)

    def _mute(self, node: Node) -> None:
        node.ways.mute_until = self.world.now + self._some(2 * self.plan.ttl_s)

    def _way(self, node: Node, *, delay_s: float = 0.02, loss: float = 0.0) -> None:
        node.ways.delay_s, node.ways.loss = delay_s, loss
        self.world.after(self._some(90), lambda: self._good_way(node))

    def _good_way(self, node: Node) -> None:
        node.ways.delay_s, node.ways.loss = 0.02, 0.0

    def _late_answer(self, node: Node) -> None:
        """Stopped while the answer to a keepalive is on its way, and cut off then."""

        def stop() -> None:
            node.stop(self.random.uniform(0.3, 0.85) * self.plan.ttl_s, keeperd=True, servants=False)
            node.ways.cut_until = self.world.now + 4 * self.plan.ttl_s

        self._way(node, delay_s=0.9)
        self.world.after(self._some(6.0), stop)

    def _full(self, _: Node) -> None:
        self.world.etcd.is_full = True
        self.world.after(self._some(90), lambda: setattr(self.world.etcd, "is_full", False))

    def _node_knows_more(self, node: Node) -> None:
        node.noded_epoch += 3

    def _node_daemon_down(self, node: Node) -> None:
        node.noded_down_until = self.world.now + self._some(200)

    def _remove_key(self, _: Node) -> None:
        self.cluster.forced(2 * self.plan.ttl_s)
        self.world.etcd.remove_master()

    def _crash_at_steps(self, node: Node) -> None:
        for each in self._nodes():
            each.crash_chance = 0.4
            if self.random.random() < 0.5:
                self.hold(each)
            self.world.after(60.0, lambda each=each: setattr(each, "crash_chance", 0.0))  # type: ignore[misc]
        node.kill_keeperd(self._some(1))

    def _last_one_crashes(self, node: Node) -> None:
        for peer in node.peers.values():
            peer.power_off(self._some(90))
        self._crash_at_steps(node)
        for number in range(6):
            self.world.after(10.0 * number, lambda: self.hold(node))

    def _switchover(self, node: Node) -> None:
        target = self.random.choice(["", *self.cluster.nodes])
        self._changes += 1
        self.world.etcd.want(OperatorRequest(kind=WantedKind.SWITCHOVER, node=target, nonce=str(self._changes)))
        if target and self.random.random() < 0.3:
            self.world.after(self._some(20), lambda: self.cluster.nodes[target].power_off(30.0))
        if self.random.random() < 0.2:
            self.world.after(self._some(20), lambda: self.world.etcd.want(None))

    def _maintenance(self, _: Node) -> None:
        self._maintain(on=True)
        self.world.after(self._some(300), lambda: self._maintain(on=False))

    def _maintain(self, *, on: bool) -> None:
        self._changes += 1
        self.world.etcd.maintain(Maintenance(on=on, change=self._changes))

    def _hang(self, node: Node) -> None:
        if node.servants is not None:
            node.servants.process.hung_until = self.world.now + self._some(3 * self.plan.ttl_s)

    def _starve(self, node: Node) -> None:
        for number in range(30):
            self.world.after(
                number * 0.7, lambda: node.stop(self.random.uniform(0.1, 1.2), keeperd=True, servants=True)
            )

    def _disk_full(self, node: Node) -> None:
        self._fitness(node, ("no room on the disk",))
        self.world.after(self._some(60), lambda: self._fitness(node, ()))

    def _fitness(self, node: Node, reasons: tuple[str, ...]) -> None:
        node.reasons = reasons
        if node.keeperd is not None:
            node.keeperd.handle(FitnessChanged(reasons))

    def _slow_disk(self, node: Node) -> None:
        node.disk_delay_s = self._some(5.0)
        self.world.after(self._some(60), lambda: setattr(node, "disk_delay_s", 0.0))

    def _stale_reads(self, node: Node) -> None:
        node.has_stale_reads = True
        self.world.after(self._some(10), lambda: setattr(node, "has_stale_reads", False))

    def _stop_asked(self, node: Node) -> None:
        if node.keeperd is not None:
            node.keeperd.handle(StopAsked())

    def _restore(self, _: Node) -> None:
        """34, 35, 36: a restore takes longer than a lease, and its snapshot is older than that."""
        away = 4 * self.plan.ttl_s
        old = [store for at, store in self.snapshots if at < self.world.now - away]
        if not old or self.is_in_doubt:
            self.snapshots = [*self.snapshots[-4:], (self.world.now, self.world.etcd.snapshot())]
            return
        snapshot = self.random.choice(old)
        self.is_in_doubt = True
        self.world.etcd.down_until = self.world.now + away
        cluster_id = self.random.choice([None, f"c{self.random.random()}"])
        self.world.at(
            self.world.now + away - 0.1, lambda: self.world.etcd.restore(snapshot, self.world.now, cluster_id)
        )
        self.storm_until = 0.0

    def _remove_epoch(self, _: Node) -> None:
        self.is_in_doubt = True
        self.world.etcd.forget_epoch()
        self.storm_until = 0.0

    # calm

    def _calm(self) -> None:
        """All faults end; an operator accepts what etcd has become; then somebody is the master."""
        self.world.run(self.world.now + (5 * self.plan.ttl_s if self.is_in_doubt else 0))
        self._mend()
        # the files of a node that is off may be the only ones that are surely complete
        self.world.run(max(self.world.now, *(node.down_until for node in self._nodes())))
        if self.is_in_doubt:
            self._accept()
        self.world.run(self.world.now + self.plan.calm_s)
        masters = [node.name for node in self._nodes() if node.is_master]
        self.world.count("calm")
        if len(masters) != 1:
            raise self.world.broken(f"after a calm the masters are {masters}: {self._states()}")
        self._check_epochs()
        self.cluster.settle()

    def _mend(self) -> None:
        now = self.world.now
        self.world.tell("-- calm")
        self.world.etcd.down_until = min(self.world.etcd.down_until, now)
        self.world.etcd.is_full = False
        self._maintain(on=False)
        self.world.etcd.want(None)
        for node in self._nodes():
            node.ways = attrs.evolve(Ways())
            node.noded_down_until = node.twin_until = node.disk_delay_s = node.crash_chance = node.fails_until = 0.0
            node.has_stale_reads = False
            self._fitness(node, ())
            for process in node.processes():
                self.world.resume(process)
            if now >= node.down_until:
                node.start()

    def _accept(self) -> None:
        """The operator chooses the node that was the last master."""
        self.world.run(self.world.now + 3 * self.plan.ttl_s)
        best = max(self._nodes(), key=lambda node: (node.memory.own_epoch, node.name))
        if best.keeperd is None or best.keeperd.state is not State.DOUBT:
            self.world.count("doubt: nothing was lost")
        else:
            self.world.count("doubt: accepted")
            self.cluster.is_reset = True
            best.keeperd.handle(RestoreAccepted())
        self.is_in_doubt = False
        self.snapshots = []

    def _states(self) -> dict[str, object]:
        return {
            node.name: (node.keeperd.state.value, node.keeperd.reasons(), node.memory) if node.keeperd else "none"
            for node in self._nodes()
        }

    def _check_epochs(self) -> None:
        won = self.world.etcd.won
        if any(later <= earlier for earlier, later in itertools.pairwise(won)):
            raise self.world.broken(f"epochs do not rise: {won[-10:]}")
        shared = {epoch: nodes for epoch, nodes in self.world.etcd.writers.items() if len(nodes) > 1}
        if shared:
            raise self.world.broken(f"more than one node wrote in an epoch: {shared}")
        self.world.etcd.won = won[-1:]
        self.world.etcd.writers = {}

"""One start of keeperd: the machine, and a shell that carries out its acts in virtual time."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from common.lease.records import Fence, LastMaster, MasterRecord
from daemons.keeperd.core import campaigning, machine
from daemons.keeperd.core.events import (
    AcceptRestore,
    Act,
    Campaign,
    CampaignLost,
    CampaignWon,
    DaemonsEnded,
    Drain,
    Drained,
    DropLease,
    Due,
    EtcdSilent,
    Event,
    KillDaemons,
    LeaseLost,
    LeaseRenewed,
    Look,
    Looked,
    MayEnd,
    NodesTold,
    OwnNodeSilent,
    Release,
    Remember,
    RemoveWanted,
    Renew,
    SetDeadline,
    StartDaemons,
    StopDaemons,
    Tell,
    TellNodes,
)
from daemons.keeperd.core.fitness import bars
from daemons.keeperd.core.states import State, View
from tests.property.keeperd.etcdmodel import EtcdModel
from tests.property.keeperd.servantsmodel import DeadlineCell
from tests.property.keeperd.world import Process

if TYPE_CHECKING:
    from tests.property.keeperd.nodemodel import Node

# seconds in which all nodes must reply, before those that do not are left for later
TELL_S = 1.0
# seconds between two tries to tell a silent node
TELL_AGAIN_S = 5.0
# of a campaign's first request; it is asked again until it is known
CAMPAIGN_S = 1.0


class ShellModel:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.world = node.world
        self.process = Process()
        self.deadline = DeadlineCell()
        self.started_epoch = 0
        # of the mastership that is renewed; 0: none is
        self.renewing = 0
        self.lease = 0
        self.fence: Fence | None = None
        self._is_looking = False
        self._look_again = False
        self._due = 0
        self._waiting: list[Act] = []
        self._is_storing = False
        self.keeper, acts = machine.begin(node.me, node.memory, node.boottime)
        self._do(acts)
        self._poll()

    # events

    def handle(self, event: Event) -> None:
        """Now, or when the process runs again."""
        self.world.deliver(self.process, lambda: self._step(event))

    def _step(self, event: Event) -> None:
        now = self.node.boottime
        before = self.keeper.state
        self.keeper, acts = machine.step(self.keeper, event, now)
        if before is not self.keeper.state:
            self.world.count(f"{before.value} -> {self.keeper.state.value}")
            self.world.tell(f"{self.node.name} {before.value} -> {self.keeper.state.value} {type(event).__name__}")
        due = machine.next_due(self.keeper)
        if due is not None and due <= now:
            raise self.world.broken(f"{self.node.name}: due at {due}, but it is {now}")
        held = self.keeper.held
        if held is not None and now >= held.deadline and self.keeper.state is not State.LOST:
            raise self.world.broken(f"{self.node.name} is {self.keeper.state.value} after its deadline")
        self._do(acts)
        self._set_timer(due)

    def _set_timer(self, due: float | None) -> None:
        self._due += 1
        number = self._due
        if due is None:
            return

        def ring() -> None:
            if number == self._due:
                # a little late, as any timer
                self.handle(Due())

        self.world.at(self.node.clock.when(due, self.world.now) + 0.001, ring)

    # acts, in order; what is stored holds up the next ones

    def _do(self, acts: Sequence[Act]) -> None:
        self._waiting += acts
        if not self._is_storing:
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self.process.is_alive:
            act = self._waiting.pop(0)
            if isinstance(act, Remember) and self.node.disk_delay_s:
                self._is_storing = True
                self.world.after(self.node.disk_delay_s, lambda: self.world.deliver(self.process, stored))

                def stored(act: Remember = act) -> None:
                    self.node.memory = act.memory
                    self._is_storing = False
                    self._go_on()

                return
            self.node.crash_now_and_then(act)
            if self.process.is_alive:
                self._act(act)

    def _act(self, act: Act) -> None:
        match act:
            case Look(elsewhere):
                self.look(elsewhere=elsewhere)
            case Campaign():
                self._campaign(act)
            case Renew(epoch, times):
                self.renewing = epoch
                self._renew(epoch, times.keepalive_s, times.request_s)
            case SetDeadline(until):
                self.deadline.until = until
                self.node.check_alone()
                self.node.check_key()
            case TellNodes(fence):
                self._tell_nodes(fence)
            case StartDaemons(fence):
                self.started_epoch = fence.epoch
                self.node.start_servants(fence, self)
            case Drain():
                self._drain()
            case StopDaemons():
                self._end_servants(self.world.random.uniform(0.02, 0.8))
            case KillDaemons():
                self._end_servants(0.02, is_kill=True)
            case Release(clean):
                self._release(clean=clean)
            case DropLease():
                self.renewing = 0
            case Remember(memory):
                self.node.memory = memory
            case RemoveWanted(wanted):
                self._ask(lambda etcd: etcd.want(None) if etcd.store.wanted == wanted else None)
            case AcceptRestore(accepted):
                self._ask(lambda etcd: etcd.accept(accepted))
            case Tell(event):
                self.world.count(event)
            case MayEnd():
                self.process.is_alive = False
                self.node.keeperd_ended()
            case _:
                pass

    # etcd

    def look(self, *, elsewhere: bool = False) -> None:
        if not self.process.is_alive:
            return
        if self._is_looking:
            self._look_again = True
            return
        self._is_looking = True

        def read(etcd: EtcdModel) -> View:
            view = etcd.view(self.node.name, self.node.living_peers(), has_twin=self.world.now < self.node.twin_until)
            old = self.node.old_view
            # a member that was paused replies from its memory
            return old if old is not None and not elsewhere and self.node.has_stale_reads else view

        def done(view: View) -> None:
            self.node.old_view = view
            self._looked(Looked(view, self.world.random.random()))

        self._send(read, done, lambda: self._looked(EtcdSilent()))

    def _looked(self, event: Event) -> None:
        self._is_looking = False
        if self._look_again:
            self._look_again = False
            self.world.after(0.01, self.look)
        self.handle(event)

    def _poll(self) -> None:
        if self.process.is_alive:
            self.look()
            pause = self.node.me.ttl_s / 2 if self.keeper.view is not None else 1.0
            self.world.after(pause, lambda: self.world.deliver(self.process, self._poll))

    def _send(
        self,
        operation: Callable[[EtcdModel], object],
        done: Callable[..., None],
        failed: Callable[[], None],
        limit_s: float = CAMPAIGN_S,
    ) -> None:
        self.world.call(self.process, self.node.ways, operation, done, failed, limit_s)

    def _ask(self, operation: Callable[[EtcdModel], object], tries: int = 3) -> None:
        again = (lambda: self._ask(operation, tries - 1)) if tries else (lambda: None)
        self._send(operation, lambda _: None, again)

    def _campaign(self, act: Campaign) -> None:
        sent_at = self.node.boottime
        late = self.world.random.random()
        ttl_s = self.node.me.ttl_s

        def granted(lease: int | None) -> None:
            if lease is None:
                self.handle(CampaignLost("etcd is full"))
            else:
                self._put_key(act, lease, sent_at)

        self._send(
            lambda etcd: etcd.grant(ttl_s, self.world.now, late),
            granted,
            lambda: self.handle(CampaignLost("etcd does not reply")),
        )

    def _put_key(self, act: Campaign, lease: int, sent_at: float) -> None:
        me = self.node.me
        nonce = f"{me.node}/{self.world.next_number()}"
        epoch = 1 + max(act.above, self.node.reachable_epoch())
        dog = {"ttl_s": me.ttl_s, "watchdog_s": me.watchdog_s}
        record = MasterRecord(node=me.node, nonce=nonce, epoch=epoch, **dog)  # type: ignore[arg-type]
        last = LastMaster(node=me.node, epoch=epoch, boot_id=me.boot_id, **dog)  # type: ignore[arg-type]

        def put() -> None:
            # the same transaction again until it is known
            self._send(lambda etcd: etcd.campaign(record, lease, act.epoch_revision, last), decided, put)

        def decided(outcome: tuple[Fence | None, MasterRecord | None, int]) -> None:
            fence, present, revision = outcome
            if fence is None and present is not None and campaigning.is_won(present, nonce):
                fence = Fence(present.epoch, revision, revision)
            if fence is None and present is not None and present.node == me.node and present.nonce != nonce:
                self.world.count("campaign met the key of an earlier keeperd")
            if fence is None:
                self._ask(lambda etcd: etcd.revoke(lease))
                self.handle(CampaignLost())
                return
            self.lease, self.fence = lease, fence
            self.world.tell(f"{me.node} won epoch {fence.epoch}")
            self.handle(CampaignWon(fence, record, sent_at))

        put()

    def _renew(self, epoch: int, every_s: float, limit_s: float) -> None:
        if self.renewing != epoch or not self.process.is_alive:
            return
        sent_at, lease, late = self.node.boottime, self.lease, self.world.random.random()
        next_at = self.world.now + every_s / self.node.clock.rate

        def done(is_there: bool) -> None:
            self.handle(LeaseRenewed(epoch, sent_at) if is_there else LeaseLost(epoch))
            if is_there:
                self.world.at(
                    next_at, lambda: self.world.deliver(self.process, lambda: self._renew(epoch, every_s, limit_s))
                )

        self._send(
            lambda etcd: self._renewed(etcd, lease, late),
            done,
            lambda: self._renew(epoch, every_s, limit_s),
            limit_s,
        )

    def _renewed(self, etcd: EtcdModel, lease: int, late: float) -> bool:
        is_there = etcd.renew(lease, self.world.now, late)
        if is_there:
            self.world.end_lease_at(etcd.store.leases[lease].ends_at)
        return is_there

    def _release(self, *, clean: bool) -> None:
        self.renewing = 0
        self.node.check_released(clean=clean)
        fence, lease = self.fence, self.lease
        if fence is not None:
            self._ask(lambda etcd: etcd.release(fence, lease, clean=clean))

    # nodes

    def _tell_nodes(self, fence: Fence, silent_s: float = 0.0) -> None:
        if self.world.now < self.node.noded_down_until:
            self._tell_later(fence, silent_s)
            return
        silent = [peer for peer in self.node.all_nodes() if not self._tell_node(peer, fence)]
        higher = max((peer.noded_epoch for peer in self.node.all_nodes() if peer not in silent), default=0)
        event = NodesTold(fence.epoch, higher if higher > fence.epoch else 0, tuple(peer.name for peer in silent))
        self.world.after(TELL_S if silent else 0.05, lambda: self.handle(event))
        if silent:
            self.world.after(TELL_AGAIN_S, lambda: self._tell_again(fence, silent))

    def _tell_later(self, fence: Fence, silent_s: float) -> None:
        """The own node daemon is down: this is told, and it is asked again."""

        def again() -> None:
            if self.process.is_alive and self.renewing == fence.epoch:
                self.handle(OwnNodeSilent(fence.epoch, silent_s + TELL_AGAIN_S))
                self._tell_nodes(fence, silent_s + TELL_AGAIN_S)

        self.world.after(TELL_AGAIN_S, again)

    def _tell_node(self, peer: "Node", fence: Fence) -> bool:
        if not self.node.reaches(peer):
            return False
        peer.noded_epoch = max(peer.noded_epoch, fence.epoch)
        return True

    def _tell_again(self, fence: Fence, silent: "list[Node]") -> None:
        if not self.process.is_alive or self.renewing != fence.epoch:
            return
        left = [peer for peer in silent if not self._tell_node(peer, fence)]
        for peer in silent:
            if peer not in left and peer.noded_epoch > fence.epoch:
                self.handle(NodesTold(fence.epoch, peer.noded_epoch))
        if left:
            self.world.after(TELL_AGAIN_S, lambda: self._tell_again(fence, left))

    # daemons

    def _drain(self) -> None:
        fence = self.fence
        assert fence is not None
        # jobs on the master take their time
        self.world.after(self.world.random.uniform(0.1, 30.0), lambda: self.handle(Drained(fence.epoch)))

    def _end_servants(self, seconds: float, *, is_kill: bool = False) -> None:
        """SIGTERM waits for a stopped process, SIGKILL does not; neither ends one that hangs."""
        epoch = self.started_epoch
        servants = self.node.servants

        def end() -> None:
            if servants is not None and servants.process.is_alive:
                wakes_at = servants.process.hung_until if is_kill else servants.process.wakes_at
                if self.world.now < wakes_at:
                    self.world.at(wakes_at + 0.01, end)
                    return
                servants.process.is_alive = False
            self.handle(DaemonsEnded(epoch))

        self.world.after(seconds, end)

    def servants_failed(self, event: Event) -> None:
        self.world.after(0.05, lambda: self.handle(event))

    # what tests ask

    @property
    def state(self) -> State:
        return self.keeper.state

    def reasons(self) -> tuple[str, ...]:
        return tuple(bar.reason for bar in bars(self.keeper, self.node.boottime))

"""A keeper that is told events one after another, with the view of etcd that a story needs."""

from collections.abc import Sequence
from typing import TypeVar

import attrs

from common.lease.records import (
    Fence,
    LastMaster,
    Maintenance,
    MasterRecord,
    MemberRecord,
    OperatorRequest,
    Role,
    WantedKind,
)
from daemons.keeperd.core import machine
from daemons.keeperd.core.events import (
    Act,
    Campaign,
    CampaignWon,
    DaemonsEnded,
    DaemonsReady,
    Due,
    Event,
    Looked,
    NodesTold,
)
from daemons.keeperd.core.keeper import Me
from daemons.keeperd.core.states import NodeMemory, State, View

NODE = "n1"
NONCE = "won-by-n1"
ME = Me(node=NODE, boot_id="boot-1", ttl_s=10.0)
# nobody has ever been the master
NEW = View(cluster_id="c", revision=10, master=None, master_revision=0, epoch=0, epoch_revision=0)
A = TypeVar("A", bound=Act)


def member(node: str, *reasons: str, priority: int = 1) -> MemberRecord:
    return MemberRecord(
        node=node,
        nonce=f"of-{node}",
        machine_id=node,
        boot_id=f"boot-{node}",
        release="1",
        state="follow",
        role=Role.REPLICA,
        reasons=reasons,
        priority=priority,
    )


def last(node: str, epoch: int, *, clean: bool = False, watchdog_s: float = 0.0, boot_id: str = "") -> LastMaster:
    return LastMaster(
        node=node, epoch=epoch, boot_id=boot_id or f"boot-{node}", ttl_s=10.0, watchdog_s=watchdog_s, clean=clean
    )


def request(kind: WantedKind, node: str = "", *, kill: bool = False, nonce: str = "w1") -> OperatorRequest:
    return OperatorRequest(kind=kind, node=node, kill=kill, nonce=nonce)


def maintenance(change: int, *, on: bool = True) -> Maintenance:
    return Maintenance(on=on, change=change)


def mastered(view: View, node: str, epoch: int, nonce: str = "other") -> View:
    """The view after a campaign of `node`, which has compared the files of this node."""
    revision = view.revision + 1
    return attrs.evolve(
        view,
        revision=revision,
        master=MasterRecord(node=node, nonce=nonce, epoch=epoch, ttl_s=10.0),
        master_revision=revision,
        epoch=epoch,
        epoch_revision=revision,
        last_master=last(node, epoch),
        synced=view.synced if node == NODE else epoch,
    )


def vacated(view: View, *, clean: bool = False) -> View:
    """The view after the key of the master has gone."""
    assert view.last_master is not None
    return attrs.evolve(
        view,
        revision=view.revision + 1,
        master=None,
        master_revision=0,
        last_master=attrs.evolve(view.last_master, clean=clean),
    )


class Play:
    """Args: now: seconds since the machine was started."""

    def __init__(self, me: Me = ME, memory: NodeMemory | None = None, now: float = 1000.0) -> None:
        self.now = now
        self.view = NEW
        self.keeper, first = machine.begin(me, memory or NodeMemory(), now)
        self.acts: list[Act] = list(first)
        # acts of the last event
        self.latest: Sequence[Act] = first

    @property
    def state(self) -> State:
        return self.keeper.state

    def at(self, state: State) -> bool:
        return self.keeper.state is state

    def tell(self, event: Event, *, after: float = 0.0) -> Sequence[Act]:
        """Tell the event some seconds later; return the acts."""
        self.now += after
        self.keeper, self.latest = machine.step(self.keeper, event, self.now)
        self.acts += self.latest
        due = machine.next_due(self.keeper)
        assert due is None or due > self.now
        return self.latest

    def look(self, view: View | None = None, *, after: float = 0.0, jitter: float = 0.0) -> Sequence[Act]:
        self.view = view or self.view
        return self.tell(Looked(self.view, jitter), after=after)

    def wait(self) -> Sequence[Act]:
        """Let the time of the next due come."""
        due = machine.next_due(self.keeper)
        assert due is not None
        return self.tell(Due(), after=due - self.now)

    def only(self, kind: type[A]) -> A:
        """The one act of this kind by the last event."""
        found = [act for act in self.latest if isinstance(act, kind)]
        assert len(found) == 1, self.latest
        return found[0]

    def has(self, kind: type[Act]) -> bool:
        return any(isinstance(act, kind) for act in self.latest)

    def idle(self, view: View | None = None) -> "Play":
        """Nothing is left of an earlier keeperd; etcd shows this."""
        self.tell(DaemonsEnded(0))
        self.look(view)
        return self

    def campaigning(self, view: View | None = None) -> "Play":
        self.idle(view)
        while self.state is State.FOLLOW:
            self.wait()
        assert self.state is State.CAMPAIGN
        return self

    def win(self, *, ttl_s: float = 10.0, late_s: float = 0.0) -> "Play":
        """The campaign is won; it was sent so much earlier."""
        above = [act for act in self.acts if isinstance(act, Campaign)][-1].above
        self.view = mastered(self.view, self.keeper.me.node, above + 1, NONCE)
        fence = Fence(above + 1, self.view.master_revision, self.view.epoch_revision)
        assert self.view.master is not None
        record = attrs.evolve(self.view.master, ttl_s=ttl_s)
        self.view = attrs.evolve(self.view, master=record)
        self.tell(CampaignWon(fence, record, self.now - late_s))
        return self

    def taking(self, view: View | None = None) -> "Play":
        return self.campaigning(view).win()

    def master(self, view: View | None = None) -> "Play":
        return self.taking(view).become_ready()

    def become_ready(self) -> "Play":
        """The daemons serve."""
        self.tell(NodesTold(self.epoch))
        self.tell(DaemonsReady(self.epoch))
        assert self.state is State.MASTER
        return self

    @property
    def epoch(self) -> int:
        assert self.keeper.held is not None
        return self.keeper.held.epoch

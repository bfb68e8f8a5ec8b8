"""True time, processes, and the ways between them and etcd.

A process that is stopped hears later what it was told meanwhile; one that has ended hears nothing. A request may be
carried out although its reply is lost, or late.
"""

import heapq
import random
from collections.abc import Callable, Mapping
from typing import TypeVar

import attrs

from tests.property.keeperd.etcdmodel import EtcdModel

R = TypeVar("R")


class Broken(AssertionError):
    """What must never be, was."""


@attrs.define
class Process:
    is_alive: bool = True
    # SIGSTOP, starved, or suspended with its machine
    stopped_until: float = 0.0
    # in an uninterruptible wait: not even SIGKILL ends it
    hung_until: float = 0.0
    # what it hears when it runs again, in order
    unheard: list[Callable[[], None]] = attrs.field(factory=list)

    @property
    def wakes_at(self) -> float:
        return max(self.stopped_until, self.hung_until)


@attrs.define
class Clock:
    """BOOTTIME of one machine: it runs on while the machine sleeps, at a rate of its own."""

    at: float = 0.0
    shows: float = 100.0
    rate: float = 1.0

    def read(self, now: float) -> float:
        return self.shows + (now - self.at) * self.rate

    def when(self, shown: float, now: float) -> float:
        """Return the true time at which it shows this, at its present rate."""
        return now + max(0.0, shown - self.read(now)) / self.rate

    def set_rate(self, rate: float, now: float) -> None:
        self.shows, self.at, self.rate = self.read(now), now, rate


@attrs.define
class Ways:
    """Between one node and etcd, and between it and other nodes."""

    # until when requests do not arrive, replies do not
    cut_until: float = 0.0
    mute_until: float = 0.0
    alone_until: float = 0.0
    # until when a stopped member keeps half of the requests, and carries them out then
    held_until: float = 0.0
    # highest delay of one way, seconds; and share of what is lost
    delay_s: float = 0.02
    loss: float = 0.0


class World:
    """Args: seed: the same one makes the same world."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.etcd = EtcdModel(self._changed)
        self.watchers: list[Callable[[], None]] = []
        self.counts: dict[str, int] = {}
        # the last faults, for who reads a failure
        self.story: list[str] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def at(self, when: float, do: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (max(when, self.now), self._number, do))

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self.at(self.now + seconds, do)

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, do = heapq.heappop(self._queue)
            do()
        self.now = until

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def tell(self, line: str) -> None:
        self.story = [*self.story[-120:], f"{self.now:.2f} {line}"]

    def broken(self, what: str) -> Broken:
        return Broken("\n".join([*self.story, f"{self.now:.2f} {what}"]))

    def _changed(self) -> None:
        for watcher in self.watchers:
            # a watch is a hint: now and then it is lost
            if self.random.random() < 0.9:
                self.after(self.random.uniform(0.005, 0.2), watcher)

    def deliver(self, process: Process, do: Callable[[], None]) -> None:
        """Let the process do this, when it runs."""
        if not process.is_alive:
            return
        if self.now >= process.wakes_at:
            do()
            return
        process.unheard.append(do)
        if len(process.unheard) == 1:
            self.at(process.wakes_at, lambda: self._hear(process))

    def resume(self, process: Process) -> None:
        """Let the process run from now on, however long it was to be stopped."""
        process.stopped_until = process.hung_until = 0.0
        self._hear(process)

    def _hear(self, process: Process) -> None:
        if self.now < process.wakes_at:
            # it was stopped for longer meanwhile
            self.at(process.wakes_at, lambda: self._hear(process))
            return
        unheard, process.unheard = process.unheard, []
        for do in unheard:
            self.deliver(process, do)

    def call(
        self,
        process: Process,
        ways: Ways,
        operation: Callable[[EtcdModel], R],
        done: Callable[[R], None],
        failed: Callable[[], None],
        limit_s: float,
    ) -> None:
        """Send a request to etcd; exactly one of `done` and `failed` comes, within the limit."""
        there, back = (self._delay(ways) for _ in range(2))
        sent_at = self.now
        if sent_at < ways.held_until and self.random.random() < 0.5:
            there += ways.held_until - sent_at

        def arrive() -> None:
            is_lost = self.now < max(ways.cut_until, self.etcd.down_until) or self.random.random() < ways.loss
            if is_lost:
                return
            self.etcd.expire(self.now)
            reply = operation(self.etcd)
            is_heard = self.now >= ways.mute_until and self.random.random() >= ways.loss
            if is_heard and there + back <= limit_s:
                answered.append(True)
                self.after(back, lambda: self.deliver(process, lambda: done(reply)))

        def time_out() -> None:
            if not answered:
                self.deliver(process, failed)

        answered: list[bool] = []
        self.after(there, arrive)
        self.at(sent_at + limit_s, time_out)

    def end_lease_at(self, when: float) -> None:
        self.at(when + 0.001, lambda: self.etcd.expire(self.now))

    def _delay(self, ways: Ways) -> float:
        return self.random.uniform(0.0, ways.delay_s)


def pick(world: World, weights: Mapping[str, float]) -> str:
    return world.random.choices(list(weights), list(weights.values()))[0]

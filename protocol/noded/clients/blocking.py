"""Call nodes from a program without an event loop: job processes and the command line.

One thread waits for all nodes together; each call has a connection of its own.

Source: noded.md sections 2 and 4.
"""

import selectors
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from common.errors import Unavailable
from protocol.noded.call import Breakdown, Failed, FailureKind, NodeAddress, NodeCall, Outcome, request_bodies
from protocol.noded.clients.certificates import CallerContext, CertificateFiles
from protocol.noded.clients.connection import CONNECT_S, MAX_CONNECTIONS, HttpRequest, NodeConnection
from protocol.noded.clients.judging import (
    BackOff,
    after_reply,
    before_sending,
    no_reply,
    no_turn,
    not_connected,
    paused,
)

R = TypeVar("R")


@attrs.frozen
class _Task(Generic[R]):
    """A call that is to be sent to one node."""

    node: NodeAddress
    call: NodeCall[R]
    request: HttpRequest
    limit_s: float
    # instant by which the call ends
    deadline: float


class BlockingNodeClient:
    """Calls node daemons over mutual TLS, at most `MAX_CONNECTIONS` at a time.

    A node that is silent is left alone for growing pauses, as long as this object lives (see `backoff`).

    Args:
        epoch: epoch of the master that calls, sent with each call; None: it has none.
        clock: returns the time, in seconds.
    """

    def __init__(
        self,
        certificates: CertificateFiles,
        *,
        epoch: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = CallerContext(certificates)
        self._epoch = epoch
        self._clock = clock
        self._back_off = BackOff()

    def call_nodes(
        self,
        nodes: Iterable[NodeAddress],
        call: NodeCall[R],
        limit_s: float | None = None,
        *,
        even_paused: bool = False,
    ) -> Mapping[str, Outcome[R]]:
        """Send one call to all these nodes at once; return what it came to at each, by node name.

        Args:
            limit_s: seconds for all of it; the call's own limit if left out.
            even_paused: whether silent nodes are asked although their pause is not over.
        """
        return self.call_each([(node, call) for node in nodes], limit_s, even_paused=even_paused)

    def call_each(
        self,
        calls: Sequence[tuple[NodeAddress, NodeCall[R]]],
        limit_s: float | None = None,
        *,
        even_paused: bool = False,
    ) -> Mapping[str, Outcome[R]]:
        """As `call_nodes`, with a call of its own for each node; no node comes twice."""
        began = self._clock()
        try:
            context = self._context.current()
        except Unavailable as error:
            return {node.name: Failed(FailureKind.UNSENT, error.message) for node, _ in calls}
        bodies = request_bodies(call for _, call in calls)
        outcomes: dict[str, Outcome[R]] = {}
        tasks: deque[_Task[R]] = deque()
        for node, call in calls:
            unsent = before_sending(node, call, bodies[id(call)]) or self._pause(node, began, even_paused)
            if unsent is not None:
                outcomes[node.name] = unsent
                continue
            within_s = call.limit_s if limit_s is None else limit_s
            request = HttpRequest(call.METHOD, bodies[id(call)], self._epoch, keep=False)
            tasks.append(_Task(node, call, request, within_s, began + within_s))
        outcomes |= self._carry_out(context, tasks, began)
        # in the order of the nodes
        return {node.name: outcomes[node.name] for node, _ in calls}

    def _pause(self, node: NodeAddress, now: float, even_paused: bool) -> Failed | None:
        silence = None if even_paused else self._back_off.pause(node.name, now)
        return None if silence is None else paused(node, silence, now)

    def _carry_out(self, context: ssl.SSLContext, tasks: deque[_Task[R]], began: float) -> Mapping[str, Outcome[R]]:
        with _Round(context, tasks, self._clock) as round_:
            outcomes = round_.run()
        now = self._clock()
        for name, outcome in outcomes.items():
            self._back_off = self._back_off.after(name, outcome, began, now)
        return outcomes


@attrs.define(eq=False)
class _Talk(Generic[R]):
    """A call that is under way."""

    task: _Task[R]
    connection: NodeConnection
    # instant by which connection and handshake are done
    connected_by: float

    @property
    def ends_at(self) -> float:
        return self.task.deadline if self.connection.is_up else min(self.connected_by, self.task.deadline)

    def late(self) -> Failed:
        """The outcome when its time is over."""
        task = self.task
        if self.connection.is_up:
            return no_reply(task.node, task.call, task.limit_s)
        return not_connected(task.node, min(task.limit_s, CONNECT_S))

    def events(self) -> int:
        reading = selectors.EVENT_READ if self.connection.wants_read else 0
        return reading | (selectors.EVENT_WRITE if self.connection.wants_write else 0)


class _Round(Generic[R]):
    """One call to many nodes, from the first connection to the last reply."""

    def __init__(self, context: ssl.SSLContext, tasks: deque[_Task[R]], clock: Callable[[], float]) -> None:
        self._context = context
        self._clock = clock
        # calls that wait for a place
        self._waiting = tasks
        self._talks: list[_Talk[R]] = []
        self._selector = selectors.DefaultSelector()
        self._outcomes: dict[str, Outcome[R]] = {}

    def __enter__(self) -> "_Round[R]":
        return self

    def __exit__(self, *_: object) -> None:
        for talk in self._talks:
            talk.connection.close()
        self._selector.close()

    def run(self) -> Mapping[str, Outcome[R]]:
        """Wait until all calls have their outcomes."""
        while self._waiting or self._talks:
            self._end_late_ones()
            while self._waiting and len(self._talks) < MAX_CONNECTIONS:
                self._begin(self._waiting.popleft())
            if self._talks:
                self._wait()
        return self._outcomes

    def _wait(self) -> None:
        ends_at = min(talk.ends_at for talk in self._talks)
        for key, _ in self._selector.select(max(ends_at - self._clock(), 0)):
            self._advance(key.data)

    def _begin(self, task: _Task[R]) -> None:
        try:
            connection = NodeConnection(task.node, self._context)
        except Breakdown as breakdown:
            self._outcomes[task.node.name] = breakdown.failed
            return
        connection.ask(task.request)
        talk = _Talk(task, connection, self._clock() + CONNECT_S)
        self._talks.append(talk)
        self._selector.register(connection.sock, talk.events(), talk)

    def _advance(self, talk: _Talk[R]) -> None:
        connection = talk.connection
        try:
            connection.advance()
        except Breakdown as breakdown:
            self._end(talk, breakdown.failed)
            return
        if connection.reply is not None:
            self._end(talk, after_reply(talk.task.node, talk.task.call, talk.task.request.epoch, connection.reply))
        elif self._selector.get_key(connection.sock).events != talk.events():
            self._selector.modify(connection.sock, talk.events(), talk)

    def _end_late_ones(self) -> None:
        now = self._clock()
        for talk in [talk for talk in self._talks if talk.ends_at <= now]:
            self._end(talk, talk.late())
        late = [task for task in self._waiting if task.deadline <= now]
        for task in late:
            self._waiting.remove(task)
            self._outcomes[task.node.name] = no_turn(task.node, task.call, task.limit_s)

    def _end(self, talk: _Talk[R], outcome: Outcome[R]) -> None:
        self._outcomes[talk.task.node.name] = outcome
        self._talks.remove(talk)
        self._selector.unregister(talk.connection.sock)
        talk.connection.close()

"""Call nodes from a trio program: many at a time, and one result for each.

    async with NodeClient(CertificateFiles(server_pem, client_pem)) as client:
        outcomes = await client.call_nodes(candidates, JobqueueUpdate(name, Content(data)))

Source: noded.md sections 2 and 4.
"""

import socket
import ssl
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

import attrs
import trio

from common.errors import Unavailable
from common.system.inthread import in_thread
from protocol.noded.call import (
    AnyCall,
    Breakdown,
    Failed,
    FailureKind,
    NodeAddress,
    NodeCall,
    Outcome,
    request_bodies,
    request_body,
)
from protocol.noded.clients.certificates import CallerContext, CertificateFiles
from protocol.noded.clients.connection import (
    CONNECT_S,
    MAX_CONNECTIONS,
    HttpRequest,
    KeptConnections,
    NodeConnection,
    NodedHttpReply,
)
from protocol.noded.clients.judging import (
    BackOff,
    NodeFailures,
    after_reply,
    before_sending,
    no_reply,
    no_turn,
    not_connected,
    paused,
)
from protocol.streamsocket import closing_unless_done

# The bodies of requests, packed once.
#
# Theory. A large content is compressed and written as base64, which costs more than sending it. The same call may go to
# many nodes one by one, as the configuration does, each when that node is ready. So the body of a large call is kept as
# long as the call itself lives, and callers that come while it is packed wait for it.


# bytes that are packed or read in a thread: the event loop has others to serve
HEAVY_BYTES: Final = 64 * 2**10


@attrs.define(eq=False)
class _Body:
    is_packed: trio.Event = attrs.Factory(trio.Event)
    # None after `is_packed`: the packing was given up
    content: bytes | None = None


class CallBodies:
    """Makes the bodies of calls."""

    def __init__(self) -> None:
        # by the identity of the call
        self._large: dict[int, _Body] = {}

    def __len__(self) -> int:
        """The number of bodies that are kept."""
        return len(self._large)

    async def of(self, calls: Sequence[AnyCall]) -> Mapping[int, bytes]:
        """The bodies by the identity of the call. Cost: a large one is packed in a thread."""
        different = {id(call): call for call in calls}
        if sum(call.carried_bytes for call in different.values()) <= HEAVY_BYTES:
            return request_bodies(calls)
        if len(different) > 1:
            return await in_thread(request_bodies, calls)
        (call,) = different.values()
        return {id(call): await self._large_one(call)}

    async def _large_one(self, call: AnyCall) -> bytes:
        kept = self._large.get(id(call))
        if kept is None:
            kept = self._large[id(call)] = _Body()
            # another call may have the same identity then
            weakref.finalize(call, self._large.pop, id(call), None).atexit = False
            try:
                kept.content = await in_thread(request_body, call)
            finally:
                kept.is_packed.set()
        await kept.is_packed.wait()
        return await in_thread(request_body, call) if kept.content is None else kept.content


R = TypeVar("R")


def no_epoch() -> None:
    """The epoch of a caller that has none, as Ganeti's."""


@attrs.frozen
class _Sending:
    """What all calls of one round share."""

    context: ssl.SSLContext
    epoch: int | None
    began: float
    even_paused: bool


class NodeClient:
    """Calls node daemons over mutual TLS; its connections are kept for further calls.

    Any number of tasks may call at a time; together they have at most `MAX_CONNECTIONS` connections. A node that
    is silent is left alone for growing pauses (`protocol.noded.clients.judging`).

    Args:
        epoch: returns the epoch of this master, which is sent with each call, or None.
    """

    def __init__(self, certificates: CertificateFiles, *, epoch: Callable[[], int | None] = no_epoch) -> None:
        self._context = CallerContext(certificates)
        self._epoch = epoch
        self._kept = KeptConnections(MAX_CONNECTIONS)
        self._places = trio.CapacityLimiter(MAX_CONNECTIONS)
        self._back_off = BackOff()
        self._bodies = CallBodies()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the kept connections; calls that are under way go on."""
        self._kept.close()
        await trio.lowlevel.checkpoint()

    def silence(self, node: str) -> NodeFailures | None:
        """Why this node is left alone now, and until when by trio's clock; None: it is asked."""
        return self._back_off.pause(node, trio.current_time())

    async def call_nodes(
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
        Cancellation: calls under way are given up; nodes may still carry them out.
        """
        return await self.call_each([(node, call) for node in nodes], limit_s, even_paused=even_paused)

    async def call_each(
        self,
        calls: Sequence[tuple[NodeAddress, NodeCall[R]]],
        limit_s: float | None = None,
        *,
        even_paused: bool = False,
    ) -> Mapping[str, Outcome[R]]:
        """As `call_nodes`, with a call of its own for each node; no node comes twice."""
        outcomes: dict[str, Outcome[R]] = {}
        try:
            sending = _Sending(self._context.current(), self._epoch(), trio.current_time(), even_paused)
        except Unavailable as error:
            await trio.lowlevel.checkpoint()
            return {node.name: Failed(FailureKind.UNSENT, error.message) for node, _ in calls}
        bodies = await self._bodies.of([call for _, call in calls])

        async def ask(node: NodeAddress, call: NodeCall[R]) -> None:
            within_s = call.limit_s if limit_s is None else limit_s
            outcomes[node.name] = await self._call(sending, node, call, bodies[id(call)], within_s)

        async with trio.open_nursery() as nursery:
            for node, call in calls:
                nursery.start_soon(ask, node, call)
        # in the order of the nodes
        return {node.name: outcomes[node.name] for node, _ in calls}

    async def _call(
        self, sending: _Sending, node: NodeAddress, call: NodeCall[R], body: bytes, limit_s: float
    ) -> Outcome[R]:
        outcome = before_sending(node, call, body)
        if outcome is not None:
            return outcome
        silence = None if sending.even_paused else self.silence(node.name)
        if silence is not None:
            return paused(node, silence, trio.current_time())
        outcome = await self._in_time(sending, node, call, body, limit_s)
        self._back_off = self._back_off.after(node.name, outcome, sending.began, trio.current_time())
        return outcome

    async def _in_time(
        self, sending: _Sending, node: NodeAddress, call: NodeCall[R], body: bytes, limit_s: float
    ) -> Outcome[R]:
        # what the end of the time means at each step
        late = no_turn(node, call, limit_s)
        request = HttpRequest(call.METHOD, body, sending.epoch)
        with trio.CancelScope(deadline=sending.began + limit_s):
            async with self._places:
                late = not_connected(node, min(limit_s, CONNECT_S))
                try:
                    connection = await self._connected(sending.context, node)
                    late = no_reply(node, call, limit_s)
                    reply = await self._exchange(connection, request, repeatable=call.REPEATABLE)
                except Breakdown as breakdown:
                    return breakdown.failed
            return await _outcome(node, call, sending.epoch, reply)
        return late

    async def _connected(self, context: ssl.SSLContext, node: NodeAddress) -> NodeConnection:
        kept = self._kept.take(node, context)
        return kept if kept is not None else await self._connect(context, node)

    async def _connect(self, context: ssl.SSLContext, node: NodeAddress) -> NodeConnection:
        self._kept.leave_room(MAX_CONNECTIONS - self._places.borrowed_tokens)
        connection = NodeConnection(node, context)
        with closing_unless_done(connection), trio.move_on_after(CONNECT_S):
            while not connection.is_up:
                await _ready(connection)
                connection.advance()
            return connection
        connection.close()
        late = not_connected(node, CONNECT_S)
        raise Breakdown(late.kind, late.text)

    async def _exchange(self, connection: NodeConnection, request: HttpRequest, *, repeatable: bool) -> NodedHttpReply:
        """Send a request and receive its reply.

        A kept connection may be closed by the node daemon just when the request is sent; then a call that may be
        delivered twice is sent once more.
        """
        is_kept = connection.reply is not None
        try:
            return await self._converse(connection, request)
        except Breakdown as breakdown:
            if not (is_kept and repeatable and breakdown.kind is FailureKind.LOST and not connection.has_reply_begun):
                raise
        return await self._converse(await self._connect(connection.context, connection.node), request)

    async def _converse(self, connection: NodeConnection, request: HttpRequest) -> NodedHttpReply:
        with closing_unless_done(connection):
            connection.ask(request)
            connection.advance()
            while connection.reply is None:
                await _ready(connection)
                connection.advance()
        self._kept.put(connection)
        return connection.reply


async def _outcome(node: NodeAddress, call: NodeCall[R], epoch: int | None, reply: NodedHttpReply) -> Outcome[R]:
    if len(reply.body) > HEAVY_BYTES:
        return await in_thread(after_reply, node, call, epoch, reply)
    return after_reply(node, call, epoch, reply)


async def _ready(connection: NodeConnection) -> None:
    """Wait until `advance` can do more."""
    if not connection.wants_read:
        await trio.lowlevel.wait_writable(connection.sock)
    elif not connection.wants_write:
        await trio.lowlevel.wait_readable(connection.sock)
    else:
        async with trio.open_nursery() as nursery:

            async def until(wait: Callable[[socket.socket], Awaitable[None]]) -> None:
                await wait(connection.sock)
                nursery.cancel_scope.cancel()

            nursery.start_soon(until, trio.lowlevel.wait_readable)
            nursery.start_soon(until, trio.lowlevel.wait_writable)

"""A client of /3 for trio programs.

Source: DESIGN section 15; `protocol.rapid.clients.conversations`.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx2
import trio

from common.errors import GantryError
from protocol.rapid.clients import connecting
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.clients.connecting import ClientOptions, explain_failure
from protocol.rapid.clients.conversations import (
    Answer,
    AnyRapidClient,
    CallAttempt,
    Conversation,
    Conversations,
    EventStreams,
    Found,
    Iteration,
)
from protocol.rapid.clients.replies import Event, EventParser, News, NoReply
from protocol.rapid.events import Topic

P = ParamSpec("P")
T = TypeVar("T")


def _call(
    method: Callable[Concatenate[Conversations, P], Conversation[T]],
) -> Callable[Concatenate["TrioRapidClient", P], Coroutine[object, object, T]]:
    """The method that carries out this conversation."""

    @wraps(method)
    async def carry_out(self: "TrioRapidClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._carry_out(method(self._talks, *args, **kwargs))

    return carry_out


def _iterator(
    method: Callable[Concatenate[Conversations, P], Iteration[T]],
) -> Callable[Concatenate["TrioRapidClient", P], AsyncGenerator[T, None]]:
    """The method that returns what this conversation finds."""

    @wraps(method)
    def iterate(self: "TrioRapidClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        return self._iterate(method(self._talks, *args, **kwargs))

    return iterate


class Events:
    """An iterator over events."""

    def __init__(self, receive: "trio.MemoryReceiveChannel[News | Exception]") -> None:
        self._receive = receive

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> News:
        try:
            told = await self._receive.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        if isinstance(told, Exception):
            raise told
        return told


class TrioRapidClient(AnyRapidClient):
    """Calls a server over HTTP; tasks may share it. An asynchronous context manager, which closes its connections.

    Args, Raises: as `AnyRapidClient`, also of its methods.
    Cancellation: the call may have been carried out; a submission with the same key gets the same ids.
    """

    _http: httpx2.AsyncClient

    def _open(self, options: ClientOptions) -> None:
        transport = httpx2.AsyncHTTPTransport(uds=str(self.place.socket)) if self.place.socket else None
        self._http = httpx2.AsyncClient(transport=transport, **options)

    def _now(self) -> float:
        return trio.current_time()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the client cannot be used any more."""
        await self._http.aclose()

    async def run(self, call: HttpCall[T], *, limit_s: float | None = None) -> T:
        """Send any call of `calls`. Args: limit_s: as of `Conversations.run`."""
        return await self._carry_out(self._talks.run(call, limit_s=limit_s))

    submit = _call(Conversations.submit)
    submit_many = _call(Conversations.submit_many)
    jobs = _iterator(Conversations.jobs)
    job = _call(Conversations.job)
    wait = _call(Conversations.wait)
    output = _iterator(Conversations.output)
    why = _call(Conversations.why)
    cancel = _call(Conversations.cancel)
    cancel_many = _call(Conversations.cancel_many)
    change_priority = _call(Conversations.change_priority)
    archive = _call(Conversations.archive)
    filters = _call(Conversations.filters)
    add_filter = _call(Conversations.add_filter)
    replace_filter = _call(Conversations.replace_filter)
    delete_filter = _call(Conversations.delete_filter)
    try_filter = _call(Conversations.try_filter)
    locks = _call(Conversations.locks)
    queue = _call(Conversations.queue)
    me = _call(Conversations.me)

    @asynccontextmanager
    async def events(
        self, topics: Sequence[Topic] = (), *, ids: Sequence[int] = (), last_id: str = ""
    ) -> AsyncGenerator[Events, None]:
        """Iterate over events without an end; a stream that breaks is opened again, and goes on where it was.

            async with client.events([Topic.JOBS]) as events:
                async for news in events:

        Args:
            ids: only of these jobs; empty: of all.
            last_id: id of the last event that the program has seen; "": begin with the present state.
        Raises, for the iterator: as calls do; Unavailable when the server stays away for `patience_s`.
        """
        streams = self._talks.events(topics, ids, last_id)
        send, receive = trio.open_memory_channel[News | Exception](0)
        raised: Exception | None = None
        async with trio.open_nursery() as nursery, receive:
            # a task of its own: cancelled within it, httpx2 closes all of its generators
            nursery.start_soon(self._read_events, streams, send)
            try:
                yield Events(receive)
            except Exception as error:
                # the program's own, or one of the iterator: the nursery would wrap it
                raised = error
            nursery.cancel_scope.cancel()
        if raised is not None:
            raise raised

    async def _read_events(self, streams: EventStreams, send: "trio.MemorySendChannel[News | Exception]") -> None:
        """Send the events of one stream after the other, at last the error that ended them."""
        async with send:
            try:
                await self._read_streams(streams, send)
            except (GantryError, OSError) as error:
                await send.send(error)

    async def _read_streams(self, streams: EventStreams, send: "trio.MemorySendChannel[News | Exception]") -> None:
        while True:
            await trio.sleep(streams.pause_s)
            lost = None
            try:
                async for event in self.stream(streams.call, streams.parser):
                    for news in streams.take(event):
                        await send.send(news)
            except NoReply as error:
                lost = error
            streams.broke(lost)

    async def stream(self, call: HttpCall[None], parser: EventParser) -> AsyncGenerator[Event, None]:
        """Iterate over the events of one stream, until it ends or breaks; one attempt.

        To end it earlier, cancel it.
        """
        try:
            options = connecting.stream_options(call, parser.last_id)
            async with self._http.stream(call.verb, call.path, **options) as response:
                if not connecting.is_stream(response):
                    await response.aread()
                    connecting.refuse_stream(call, response, self.place)
                self._talks.has_replied = True
                async for content in response.aiter_bytes():
                    for event in parser.feed(content):
                        yield event
        except httpx2.RequestError as error:
            raise explain_failure(error, self.place) from error

    async def _carry_out(self, talk: Conversation[T]) -> T:
        try:
            attempt = next(talk)
            while True:
                attempt = talk.send(await self._answer(attempt))
        except StopIteration as end:
            value: T = end.value
            return value

    async def _iterate(self, talk: Iteration[T]) -> AsyncGenerator[T, None]:
        try:
            step = next(talk)
            while True:
                if isinstance(step, Found):
                    for value in step.values:
                        yield value
                    step = next(talk)
                else:
                    step = talk.send(await self._answer(step))
        except StopIteration:
            return

    async def _answer(self, attempt: CallAttempt) -> Answer:
        if attempt.pause_s:
            await trio.sleep(attempt.pause_s)
        try:
            response = await self._http.request(attempt.verb, attempt.path, **attempt.options)
        except httpx2.RequestError as error:
            return error
        return connecting.read_reply(response)

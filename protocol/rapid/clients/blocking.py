"""A client of /3 for programs without an event loop.

Source: DESIGN section 15; `protocol.rapid.clients.conversations`.
"""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx2

from protocol.rapid.clients import connecting
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.clients.connecting import ClientOptions, RequestOptions, explain_failure
from protocol.rapid.clients.conversations import (
    Answer,
    AnyRapidClient,
    CallAttempt,
    Conversation,
    Conversations,
    Found,
    Iteration,
)
from protocol.rapid.clients.replies import Event, EventParser, News, NoReply
from protocol.rapid.events import Topic

P = ParamSpec("P")
T = TypeVar("T")


def _call(
    method: Callable[Concatenate[Conversations, P], Conversation[T]],
) -> Callable[Concatenate["RapidClient", P], T]:
    """The method that carries out this conversation."""

    @wraps(method)
    def carry_out(self: "RapidClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._carry_out(method(self._talks, *args, **kwargs))

    return carry_out


def _iterator(
    method: Callable[Concatenate[Conversations, P], Iteration[T]],
) -> Callable[Concatenate["RapidClient", P], Iterator[T]]:
    """The method that returns what this conversation finds."""

    @wraps(method)
    def iterate(self: "RapidClient", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._iterate(method(self._talks, *args, **kwargs))

    return iterate


class RapidClient(AnyRapidClient):
    """Calls a server over HTTP; threads may share it. A context manager, which closes its connections.

    Args, Raises: as `AnyRapidClient`, also of its methods.
    """

    _http: httpx2.Client
    # connections of the streams that are being read
    _streams: set[socket.socket]

    def _open(self, options: ClientOptions) -> None:
        self._streams = set()
        transport = httpx2.HTTPTransport(uds=str(self.place.socket)) if self.place.socket else None
        self._http = httpx2.Client(transport=transport, **options)

    def _now(self) -> float:
        return time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the client cannot be used any more."""
        self._http.close()

    def run(self, call: HttpCall[T], *, limit_s: float | None = None) -> T:
        """Send any call of `calls`. Args: limit_s: as of `Conversations.run`."""
        return self._carry_out(self._talks.run(call, limit_s=limit_s))

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

    def events(self, topics: Sequence[Topic] = (), *, ids: Sequence[int] = (), last_id: str = "") -> Iterator[News]:
        """Iterate over events without an end; a stream that breaks is opened again, and goes on where it was.

        Args:
            ids: only of these jobs; empty: of all.
            last_id: id of the last event that the program has seen; "": begin with the present state.
        Raises: as calls do; Unavailable when the server stays away for `patience_s`.
        """
        streams = self._talks.events(topics, ids, last_id)
        while True:
            time.sleep(streams.pause_s)
            lost = None
            try:
                for event in self.stream(streams.call, streams.parser):
                    yield from streams.take(event)
            except NoReply as error:
                lost = error
            streams.broke(lost)

    def stream(self, call: HttpCall[None], parser: EventParser) -> Iterator[Event]:
        """Iterate over the events of one stream, until it ends or breaks; one attempt."""
        options = connecting.stream_options(call, parser.last_id)
        for content in self.pieces(call, options, connecting.EVENTS):
            yield from parser.feed(content)

    def pieces(self, call: HttpCall[T], options: RequestOptions, kind: str) -> Iterator[bytes]:
        """Iterate over the bytes of one stream of this media type, as they come; one attempt."""
        try:
            with self._http.stream(call.verb, call.path, **options) as response:
                if not connecting.is_stream(response, kind):
                    response.read()
                    connecting.refuse_stream(call, response, self.place)
                self._talks.has_replied = True
                with self._ends_at_hang_up(response):
                    yield from response.iter_bytes()
        except httpx2.RequestError as error:
            raise explain_failure(error, self.place) from error

    def hang_up(self) -> None:
        """End all streams, which other threads may be reading: for those it is as if the server had gone."""
        for sock in list(self._streams):
            with suppress(OSError):
                # not of the TLS socket, which would forget its state under the reader
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    @contextmanager
    def _ends_at_hang_up(self, response: httpx2.Response) -> Iterator[None]:
        sock = response.extensions["network_stream"].get_extra_info("socket")
        self._streams.add(sock)
        try:
            yield
        finally:
            self._streams.discard(sock)

    def _carry_out(self, talk: Conversation[T]) -> T:
        try:
            attempt = next(talk)
            while True:
                attempt = talk.send(self._answer(attempt))
        except StopIteration as end:
            value: T = end.value
            return value

    def _iterate(self, talk: Iteration[T]) -> Iterator[T]:
        try:
            step = next(talk)
            while True:
                if isinstance(step, Found):
                    yield from step.values
                    step = next(talk)
                else:
                    step = talk.send(self._answer(step))
        except StopIteration:
            return

    def _answer(self, attempt: CallAttempt) -> Answer:
        if attempt.pause_s:
            time.sleep(attempt.pause_s)
        try:
            response = self._http.request(attempt.verb, attempt.path, **attempt.options)
        except httpx2.RequestError as error:
            return error
        return connecting.read_reply(response)

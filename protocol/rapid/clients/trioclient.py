"""A client of /3 for trio programs.

Source: DESIGN section 15.
"""

import itertools
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Protocol, Self, TypeVar

import attrs
import httpx2
import trio

from common.errors import GantryError
from common.ids import JobId
from common.queue.explanation import Reason
from protocol.luxi.jobs import OpInput, OutputStream
from protocol.rapid.clients import calls, connecting
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.clients.connecting import POLL_S, explain_failure, is_awaited
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.replies import (
    FIRST_PATIENCE_S,
    PATIENCE_S,
    Event,
    EventParser,
    News,
    NoReply,
    next_pause,
    read_news,
    read_value,
)
from protocol.rapid.cluster import Caller, Filter, FilterTrial, FilterWish, LockState, Queue
from protocol.rapid.events import Topic
from protocol.rapid.jobactions import CancelMany, Done, ManyChanged
from protocol.rapid.jobs import PAGE_MOST, Job, JobQuery, SubmittedJob

# Streams of events read in a task, one after the other, for a trio program.
#
# Source: `protocol.rapid.events`.


class Streams(Protocol):
    """A client that opens streams."""

    place: Place

    def stream(self, call: HttpCall[None], parser: EventParser) -> AsyncGenerator[Event, None]: ...

    def pause_after(self, error: NoReply, attempt: int, began: float) -> float | None: ...


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


async def read_events(
    client: Streams, call: HttpCall[None], last_id: str, send: "trio.MemorySendChannel[News | Exception]"
) -> None:
    """Send the events of one stream after the other, at last the error that ended them."""
    async with send:
        try:
            await _read_streams(client, call, last_id, send)
        except (GantryError, OSError) as error:
            await send.send(error)


async def _read_streams(
    client: Streams, call: HttpCall[None], last_id: str, send: "trio.MemorySendChannel[News | Exception]"
) -> None:
    parser, began, attempt = EventParser(last_id), trio.current_time(), 0
    while True:
        try:
            async for event in client.stream(call, parser):
                attempt = 0
                if (news := read_news(event)) is not None:
                    await send.send(news)
            lost = NoReply(f"{client.place.name} ended the stream of events", parser.failure())
        except NoReply as error:
            lost = error
        # a stream may have been quiet for long before it broke
        began = trio.current_time() if attempt == 0 else began
        attempt += 1
        pause = client.pause_after(lost, attempt, began)
        if pause is None:
            raise lost
        await trio.sleep(pause)
        parser = EventParser(parser.last_id, parser.retry_s)


T = TypeVar("T")


class TrioRapidClient:
    """Calls a server over HTTP; tasks may share it. An asynchronous context manager, which closes its connections.

    Every call raises:
        RemoteError: the server refuses it; `code` says why ("not_found", "denied", "conflict", ...).
        Unavailable: no reply came, and further attempts did not help or would not be safe. A call that changes
            something is sent again only if it did not arrive, or if a second delivery does no harm.
        ConnectionLost: as Unavailable, and whether the server acted is unknown.

    Args:
        place: the server; or its address, for which the other arguments are as in `Place.at`.
        timeout_s: seconds for a reply, beside the time that a call waits for something.
        patience_s: seconds for all attempts of a call, with a server that has replied before.
    Raises: InvalidRequest: the address, the fingerprint, or the file of certificates cannot be used.
    Cancellation: the call may have been carried out; a submission with the same key gets the same ids.
    """

    def __init__(
        self,
        place: Place | str,
        *,
        token: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        fingerprint: str | None = None,
        timeout_s: float = 60.0,
        patience_s: float = PATIENCE_S,
    ) -> None:
        if isinstance(place, str):
            place = Place.at(place, token=token, password=password, ca=ca, fingerprint=fingerprint)
        self.place = place
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._has_replied = False
        transport = httpx2.AsyncHTTPTransport(uds=str(place.socket)) if place.socket else None
        self._http = httpx2.AsyncClient(transport=transport, **connecting.options(place))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the client cannot be used any more."""
        await self._http.aclose()

    async def run(self, call: HttpCall[T]) -> T:
        """Send any call of `jobcalls` and `thingcalls`."""
        began = trio.current_time()
        for attempt in itertools.count(1):
            try:
                return await self._once(call)
            except NoReply as error:
                pause = self.pause_after(error, attempt, began, is_repeatable=call.is_repeatable)
                if pause is None:
                    raise
            await trio.sleep(pause)
        raise AssertionError("count() has no end")

    async def _once(self, call: HttpCall[T]) -> T:
        try:
            options = connecting.request_options(call, self._timeout_s)
            response = await self._http.request(call.verb, call.path, **options)
        except httpx2.RequestError as error:
            raise explain_failure(error, self.place, is_harmless=call.is_harmless) from error
        value = read_value(call, connecting.read_reply(response), self.place.name)
        self._has_replied = True
        return value

    def pause_after(self, error: NoReply, attempt: int, began: float, *, is_repeatable: bool = True) -> float | None:
        """Seconds to wait before the next attempt; None: there is none. Args: began: time of the first attempt."""
        patience_s = self._patience_s if self._has_replied else min(self._patience_s, FIRST_PATIENCE_S)
        spent_s = trio.current_time() - began
        return next_pause(error.failure, attempt, spent_s, patience_s, random.random(), is_repeatable=is_repeatable)

    async def submit(self, ops: Sequence[OpInput], *, key: str | None = None) -> JobId:
        """Submit a job of these opcodes; return its id when it is durable.

        Args: key: a text of the program's own for this submission: sent again within a day, also by another
            process, it gets the same id.
        """
        (taken,) = await self.submit_many([ops], key=key)
        # a refused job of one is an error
        assert taken.id is not None
        return taken.id

    async def submit_many(
        self, jobs: Sequence[Sequence[OpInput]], *, key: str | None = None
    ) -> tuple[SubmittedJob, ...]:
        """Submit jobs together, which may depend on one another: `"depends": [[-1, ["success"]]]`.

        Returns: for each job its id, or why it was refused. Args: key: as of `submit`.
        """
        return (await self.run(calls.submit_jobs(jobs, key or calls.new_key()))).jobs

    async def jobs(
        self,
        filter: object = None,
        *,
        fields: Sequence[str] | None = None,
        archived: bool = False,
        ascending: bool = False,
        page: int = PAGE_MOST,
    ) -> AsyncGenerator[Job, None]:
        """Iterate over jobs, newest first, fetched a page at a time.

        Args: filter: text ("status=waiting & user=ada"), or an expression of the query language; None: all.
        """
        names = None if fields is None else tuple(fields)
        query = JobQuery(filter=filter, fields=names, archived=archived, limit=page, ascending=ascending)
        while True:
            found = await self.run(calls.query_jobs(query))
            for job in found.jobs:
                yield job
            if found.next is None:
                return
            query = attrs.evolve(query, cursor=found.next)

    async def job(self, job_id: int, *, fields: Sequence[str] = ()) -> Job:
        """A job with everything about it, or with these fields."""
        return await self.run(calls.get_job(job_id, fields))

    async def wait(self, job_id: int, *, until: Sequence[str] = ("final",), timeout_s: float | None = None) -> Job:
        """Wait until the job is in one of these states, or has ended.

        Returns: the job as it is then; at the time-out as it is, whatever its state.
        """
        deadline = None if timeout_s is None else trio.current_time() + timeout_s
        while True:
            left_s = POLL_S if deadline is None else min(max(deadline - trio.current_time(), 0.0), POLL_S)
            job = (await self.run(calls.wait_until(job_id, until, left_s))).job
            if is_awaited(job, until) or (deadline is not None and trio.current_time() >= deadline):
                return job

    async def output(
        self, job_id: int, *, follow: bool = False, stream: OutputStream = OutputStream.OUTPUT, offset: int = 0
    ) -> AsyncGenerator[str, None]:
        """Iterate over pieces of the output of the job's commands: what there is now, or all until the job has ended.

        Args: offset: byte at which to begin.
        """
        while True:
            piece = await self.run(calls.read_output(job_id, offset, POLL_S if follow else 0.0, stream))
            if piece.text:
                yield piece.text
            if piece.is_end or not (piece.text or follow):
                return
            offset = piece.next_offset

    async def why(self, job_id: int) -> tuple[Reason, ...]:
        """The reasons why a job does not run; none: it runs, or has ended."""
        return (await self.run(calls.explain_job(job_id))).reasons or ()

    async def cancel(self, job_id: int, *, kill: bool = False) -> Done:
        """Cancel a job that has not begun; with `kill` also one that runs."""
        return await self.run(calls.cancel_job(job_id, kill=kill))

    async def cancel_many(self, wish: CancelMany) -> ManyChanged:
        """Cancel all jobs that a filter finds; with `dry_run` only say which."""
        return await self.run(calls.cancel_many(wish))

    async def change_priority(self, job_id: int, priority: int) -> Done:
        """Give a job another priority: -10 (high), 0 (normal) or 10 (low)."""
        return await self.run(calls.change_priority(job_id, priority))

    async def archive(self, job_id: int) -> Done:
        """Archive a job that has ended."""
        return await self.run(calls.archive_job(job_id))

    async def filters(self) -> tuple[Filter, ...]:
        """The filter rules, in order of evaluation."""
        return (await self.run(calls.list_filters())).filters

    async def add_filter(self, wish: FilterWish) -> Filter:
        """Add a filter rule."""
        return await self.run(calls.add_filter(wish))

    async def replace_filter(self, uuid: str, wish: FilterWish) -> Filter:
        """Create or replace the rule with this UUID."""
        return await self.run(calls.replace_filter(uuid, wish))

    async def delete_filter(self, uuid: str) -> None:
        """Delete a filter rule."""
        await self.run(calls.delete_filter(uuid))

    async def try_filter(self, wish: FilterWish) -> FilterTrial:
        """Say to which waiting jobs a rule would apply; nothing is changed."""
        return await self.run(calls.try_filter(wish))

    async def locks(self, names: Sequence[str] = ()) -> tuple[LockState, ...]:
        """Who holds and who waits for each lock; for these, or all."""
        return (await self.run(calls.list_locks(names))).locks

    async def queue(self) -> Queue:
        """The state of the queue."""
        return await self.run(calls.get_queue())

    async def me(self) -> Caller:
        """The caller, as the server sees it."""
        return await self.run(calls.get_caller())

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
        call = calls.stream_events(topics, ids)
        send, receive = trio.open_memory_channel[News | Exception](0)
        raised: Exception | None = None
        async with trio.open_nursery() as nursery, receive:
            # a task of its own: cancelled within it, httpx2 closes all of its generators
            nursery.start_soon(read_events, self, call, last_id, send)
            try:
                yield Events(receive)
            except Exception as error:
                # the program's own, or one of the iterator: the nursery would wrap it
                raised = error
            nursery.cancel_scope.cancel()
        if raised is not None:
            raise raised

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
                self._has_replied = True
                async for content in response.aiter_bytes():
                    for event in parser.feed(content):
                        yield event
        except httpx2.RequestError as error:
            raise explain_failure(error, self.place) from error

"""A client of /3 for programs without an event loop.

Source: DESIGN section 15.
"""

import itertools
import random
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self, TypeVar

import attrs
import httpx2

from common.ids import JobId
from common.queue.explanation import Reason
from protocol.luxi.jobs import OpInput, OutputStream
from protocol.rapid.clients import calls, connecting
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.clients.connecting import POLL_S, RequestOptions, explain_failure, is_awaited
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.replies import (
    FIRST_PATIENCE_S,
    PATIENCE_S,
    Event,
    EventParser,
    Failure,
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

T = TypeVar("T")


class RapidClient:
    """Calls a server over HTTP; threads may share it. A context manager, which closes its connections.

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
        # connections of the streams that are being read
        self._streams: set[socket.socket] = set()
        transport = httpx2.HTTPTransport(uds=str(place.socket)) if place.socket else None
        self._http = httpx2.Client(transport=transport, **connecting.options(place))

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
        """Send any call of `calls`.

        Args: limit_s: seconds for all attempts together, beside what it takes to look up the name of the server; None:
            each attempt has its usual time.
        """
        began = time.monotonic()
        for attempt in itertools.count(1):
            try:
                return self._once(call, None if limit_s is None else began + limit_s - time.monotonic())
            except NoReply as error:
                pause = self._pause(error.failure, attempt, began, is_repeatable=call.is_repeatable)
                if pause is None or (limit_s is not None and time.monotonic() + pause >= began + limit_s):
                    raise
            time.sleep(pause)
        raise AssertionError("count() has no end")

    def _once(self, call: HttpCall[T], left_s: float | None) -> T:
        try:
            options = connecting.request_options(call, self._timeout_s if left_s is None else max(left_s, 0.001))
            response = self._http.request(call.verb, call.path, **options)
        except httpx2.RequestError as error:
            raise explain_failure(error, self.place, is_harmless=call.is_harmless) from error
        value = read_value(call, connecting.read_reply(response), self.place.name)
        self._has_replied = True
        return value

    def _pause(self, failure: Failure | None, attempt: int, began: float, *, is_repeatable: bool) -> float | None:
        patience_s = self._patience_s if self._has_replied else min(self._patience_s, FIRST_PATIENCE_S)
        spent_s = time.monotonic() - began
        return next_pause(failure, attempt, spent_s, patience_s, random.random(), is_repeatable=is_repeatable)

    def submit(self, ops: Sequence[OpInput], *, key: str | None = None) -> JobId:
        """Submit a job of these opcodes; return its id when it is durable.

        Args: key: a text of the program's own for this submission: sent again within a day, also by another
            process, it gets the same id.
        """
        (taken,) = self.submit_many([ops], key=key)
        # a refused job of one is an error
        assert taken.id is not None
        return taken.id

    def submit_many(self, jobs: Sequence[Sequence[OpInput]], *, key: str | None = None) -> tuple[SubmittedJob, ...]:
        """Submit jobs together, which may depend on one another: `"depends": [[-1, ["success"]]]`.

        Returns: for each job its id, or why it was refused. Args: key: as of `submit`.
        """
        return self.run(calls.submit_jobs(jobs, key or calls.new_key())).jobs

    def jobs(
        self,
        filter: object = None,
        *,
        fields: Sequence[str] | None = None,
        archived: bool = False,
        ascending: bool = False,
        page: int = PAGE_MOST,
    ) -> Iterator[Job]:
        """Iterate over jobs, newest first, fetched a page at a time.

        Args: filter: text ("status=waiting & user=ada"), or an expression of the query language; None: all.
        """
        names = None if fields is None else tuple(fields)
        query = JobQuery(filter=filter, fields=names, archived=archived, limit=page, ascending=ascending)
        while True:
            found = self.run(calls.query_jobs(query))
            yield from found.jobs
            if found.next is None:
                return
            query = attrs.evolve(query, cursor=found.next)

    def job(self, job_id: int, *, fields: Sequence[str] = ()) -> Job:
        """A job with everything about it, or with these fields."""
        return self.run(calls.get_job(job_id, fields))

    def wait(self, job_id: int, *, until: Sequence[str] = ("final",), timeout_s: float | None = None) -> Job:
        """Wait until the job is in one of these states, or has ended.

        Returns: the job as it is then; at the time-out as it is, whatever its state.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = POLL_S if deadline is None else min(max(deadline - time.monotonic(), 0.0), POLL_S)
            job = self.run(calls.wait_until(job_id, until, left_s)).job
            if is_awaited(job, until) or (deadline is not None and time.monotonic() >= deadline):
                return job

    def output(
        self, job_id: int, *, follow: bool = False, stream: OutputStream = OutputStream.OUTPUT, offset: int = 0
    ) -> Iterator[str]:
        """Iterate over pieces of the output of the job's commands: what there is now, or all until the job has ended.

        Args: offset: byte at which to begin.
        """
        while True:
            piece = self.run(calls.read_output(job_id, offset, POLL_S if follow else 0.0, stream))
            if piece.text:
                yield piece.text
            if piece.is_end or not (piece.text or follow):
                return
            offset = piece.next_offset

    def why(self, job_id: int) -> tuple[Reason, ...]:
        """The reasons why a job does not run; none: it runs, or has ended."""
        return self.run(calls.explain_job(job_id)).reasons or ()

    def cancel(self, job_id: int, *, kill: bool = False) -> Done:
        """Cancel a job that has not begun; with `kill` also one that runs."""
        return self.run(calls.cancel_job(job_id, kill=kill))

    def cancel_many(self, wish: CancelMany) -> ManyChanged:
        """Cancel all jobs that a filter finds; with `dry_run` only say which."""
        return self.run(calls.cancel_many(wish))

    def change_priority(self, job_id: int, priority: int) -> Done:
        """Give a job another priority: -10 (high), 0 (normal) or 10 (low)."""
        return self.run(calls.change_priority(job_id, priority))

    def archive(self, job_id: int) -> Done:
        """Archive a job that has ended."""
        return self.run(calls.archive_job(job_id))

    def filters(self) -> tuple[Filter, ...]:
        """The filter rules, in order of evaluation."""
        return self.run(calls.list_filters()).filters

    def add_filter(self, wish: FilterWish) -> Filter:
        """Add a filter rule."""
        return self.run(calls.add_filter(wish))

    def replace_filter(self, uuid: str, wish: FilterWish) -> Filter:
        """Create or replace the rule with this UUID."""
        return self.run(calls.replace_filter(uuid, wish))

    def delete_filter(self, uuid: str) -> None:
        """Delete a filter rule."""
        self.run(calls.delete_filter(uuid))

    def try_filter(self, wish: FilterWish) -> FilterTrial:
        """Say to which waiting jobs a rule would apply; nothing is changed."""
        return self.run(calls.try_filter(wish))

    def locks(self, names: Sequence[str] = ()) -> tuple[LockState, ...]:
        """Who holds and who waits for each lock; for these, or all."""
        return self.run(calls.list_locks(names)).locks

    def queue(self) -> Queue:
        """The state of the queue."""
        return self.run(calls.get_queue())

    def me(self) -> Caller:
        """The caller, as the server sees it."""
        return self.run(calls.get_caller())

    def events(self, topics: Sequence[Topic] = (), *, ids: Sequence[int] = (), last_id: str = "") -> Iterator[News]:
        """Iterate over events without an end; a stream that breaks is opened again, and goes on where it was.

        Args:
            ids: only of these jobs; empty: of all.
            last_id: id of the last event that the program has seen; "": begin with the present state.
        Raises: as calls do; Unavailable when the server stays away for `patience_s`.
        """
        call = calls.stream_events(topics, ids)
        parser, began, attempt = EventParser(last_id), time.monotonic(), 0
        while True:
            try:
                for event in self.stream(call, parser):
                    attempt = 0
                    if (news := read_news(event)) is not None:
                        yield news
                lost = NoReply(f"{self.place.name} ended the stream of events", parser.failure())
            except NoReply as error:
                lost = error
            # a stream may have been quiet for long before it broke
            began = time.monotonic() if attempt == 0 else began
            attempt += 1
            pause = self._pause(lost.failure, attempt, began, is_repeatable=True)
            if pause is None:
                raise lost
            time.sleep(pause)
            parser = EventParser(parser.last_id, parser.retry_s)

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
                self._has_replied = True
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

"""What the clients of /3 do, decided once for programs with and without an event loop, and without I/O.

Theory. A method of a client is a *conversation*: a generator that yields a `CallAttempt`, to be made after its pause,
and gets back what came of it, a reply or an error of the transport. How long an attempt may take, whether and when
there is another one, what the reply means and which text an error has is decided here. The clients in `blocking` and
`trioclient` are drivers: they pause, send and receive. A conversation that also yields `Found` is an iterator.

Source: DESIGN section 15.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Generic, TypeVar

import attrs
import httpx2

from common.ids import JobId
from common.queue.explanation import Reason
from common.queue.jobs import FINAL_NAMES
from protocol.luxi.jobs import OpInput, OutputStream
from protocol.rapid.clients import calls, connecting
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.clients.connecting import POLL_S, RequestOptions, explain_failure
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.replies import (
    FIRST_PATIENCE_S,
    PATIENCE_S,
    Event,
    EventParser,
    Failure,
    HttpReply,
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


@attrs.frozen
class CallAttempt:
    """A request to send, after a pause."""

    pause_s: float
    verb: str
    path: str
    options: RequestOptions


@attrs.frozen
class Found(Generic[T]):
    """The next values of an iterator."""

    values: Sequence[T]


# what came of an attempt
Answer = HttpReply | httpx2.RequestError
Conversation = Generator[CallAttempt, Answer, T]
# after `Found` it is resumed without an answer
Iteration = Generator[CallAttempt | Found[T], Answer, None]


class Conversations:
    """The methods of a client.

    Args:
        timeout_s, patience_s: as of `AnyRapidClient`.
        clock: returns the time, in seconds.
    """

    def __init__(self, place: Place, timeout_s: float, patience_s: float, clock: Callable[[], float]) -> None:
        self.place = place
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self.clock = clock
        # whether the server has replied before; one that has not may be away for ever
        self.has_replied = False

    def run(self, call: HttpCall[T], *, limit_s: float | None = None) -> Conversation[T]:
        """Send any call of `calls`.

        Args: limit_s: seconds for all attempts together, beside what it takes to look up the name of the server; None:
            each attempt has its usual time.
        """
        began, attempt, pause_s = self.clock(), 0, 0.0
        while True:
            attempt += 1
            left_s = None if limit_s is None else began + limit_s - self.clock() - pause_s
            options = connecting.request_options(call, self._timeout_s if left_s is None else max(left_s, 0.001))
            answer = yield CallAttempt(pause_s, call.verb, call.path, options)
            try:
                return self._value(call, answer)
            except NoReply as error:
                pause = self.next_pause(error.failure, attempt, began, is_repeatable=call.is_repeatable)
                if pause is None or (limit_s is not None and self.clock() + pause >= began + limit_s):
                    raise
                pause_s = pause

    def _value(self, call: HttpCall[T], answer: Answer) -> T:
        if isinstance(answer, httpx2.RequestError):
            raise explain_failure(answer, self.place, is_harmless=call.is_harmless) from answer
        value = read_value(call, answer, self.place.name)
        self.has_replied = True
        return value

    def next_pause(self, failure: Failure | None, attempt: int, began: float, *, is_repeatable: bool) -> float | None:
        """Seconds to wait before the next attempt; None: there is none. Args: began: time of the first attempt."""
        patience_s = self._patience_s if self.has_replied else min(self._patience_s, FIRST_PATIENCE_S)
        spent_s = self.clock() - began
        return next_pause(failure, attempt, spent_s, patience_s, random.random(), is_repeatable=is_repeatable)

    def submit(self, ops: Sequence[OpInput], *, key: str | None = None) -> Conversation[JobId]:
        """Submit a job of these opcodes; return its id when it is durable.

        Args: key: a text of the program's own for this submission: sent again within a day, also by another
            process, it gets the same id.
        """
        (taken,) = yield from self.submit_many([ops], key=key)
        # a refused job of one is an error
        assert taken.id is not None
        return taken.id

    def submit_many(
        self, jobs: Sequence[Sequence[OpInput]], *, key: str | None = None
    ) -> Conversation[tuple[SubmittedJob, ...]]:
        """Submit jobs together, which may depend on one another: `"depends": [[-1, ["success"]]]`.

        Returns: for each job its id, or why it was refused. Args: key: as of `submit`.
        """
        return (yield from self.run(calls.submit_jobs(jobs, key or calls.new_key()))).jobs

    def jobs(
        self,
        filter: object = None,
        *,
        fields: Sequence[str] | None = None,
        archived: bool = False,
        ascending: bool = False,
        page: int = PAGE_MOST,
    ) -> Iteration[Job]:
        """Iterate over jobs, newest first, fetched a page at a time.

        Args: filter: text ("status=waiting & user=ada"), or an expression of the query language; None: all.
        """
        names = None if fields is None else tuple(fields)
        query = JobQuery(filter=filter, fields=names, archived=archived, limit=page, ascending=ascending)
        while True:
            found = yield from self.run(calls.query_jobs(query))
            yield Found(found.jobs)
            if found.next is None:
                return
            query = attrs.evolve(query, cursor=found.next)

    def job(self, job_id: int, *, fields: Sequence[str] = ()) -> Conversation[Job]:
        """A job with everything about it, or with these fields."""
        return self.run(calls.get_job(job_id, fields))

    def wait(
        self, job_id: int, *, until: Sequence[str] = ("final",), timeout_s: float | None = None
    ) -> Conversation[Job]:
        """Wait until the job is in one of these states, or has ended.

        Returns: the job as it is then; at the time-out as it is, whatever its state.
        """
        deadline = None if timeout_s is None else self.clock() + timeout_s
        while True:
            left_s = POLL_S if deadline is None else min(max(deadline - self.clock(), 0.0), POLL_S)
            job = (yield from self.run(calls.wait_until(job_id, until, left_s))).job
            if _is_awaited(job, until) or (deadline is not None and self.clock() >= deadline):
                return job

    def output(
        self, job_id: int, *, follow: bool = False, stream: OutputStream = OutputStream.OUTPUT, offset: int = 0
    ) -> Iteration[str]:
        """Iterate over pieces of the output of the job's commands: what there is now, or all until the job has ended.

        Args: offset: byte at which to begin.
        """
        while True:
            piece = yield from self.run(calls.read_output(job_id, offset, POLL_S if follow else 0.0, stream))
            if piece.text:
                yield Found([piece.text])
            if piece.is_end or not (piece.text or follow):
                return
            offset = piece.next_offset

    def why(self, job_id: int) -> Conversation[tuple[Reason, ...]]:
        """The reasons why a job does not run; none: it runs, or has ended."""
        return (yield from self.run(calls.explain_job(job_id))).reasons or ()

    def cancel(self, job_id: int, *, kill: bool = False) -> Conversation[Done]:
        """Cancel a job that has not begun; with `kill` also one that runs."""
        return self.run(calls.cancel_job(job_id, kill=kill))

    def cancel_many(self, wish: CancelMany) -> Conversation[ManyChanged]:
        """Cancel all jobs that a filter finds; with `dry_run` only say which."""
        return self.run(calls.cancel_many(wish))

    def change_priority(self, job_id: int, priority: int) -> Conversation[Done]:
        """Give a job another priority: -10 (high), 0 (normal) or 10 (low)."""
        return self.run(calls.change_priority(job_id, priority))

    def archive(self, job_id: int) -> Conversation[Done]:
        """Archive a job that has ended."""
        return self.run(calls.archive_job(job_id))

    def filters(self) -> Conversation[tuple[Filter, ...]]:
        """The filter rules, in order of evaluation."""
        return (yield from self.run(calls.list_filters())).filters

    def add_filter(self, wish: FilterWish) -> Conversation[Filter]:
        """Add a filter rule."""
        return self.run(calls.add_filter(wish))

    def replace_filter(self, uuid: str, wish: FilterWish, tag: str | None = None) -> Conversation[Filter]:
        """Create or replace the rule with this UUID.

        Args: tag: `Filter.tag` of the rule that was read: if it has another by now, it stays as it is, and the error
            has the code "precondition_failed"; None: whichever it has.
        """
        return self.run(calls.replace_filter(uuid, wish, tag))

    def delete_filter(self, uuid: str, tag: str | None = None) -> Conversation[None]:
        """Delete a filter rule. Args: tag: as of `replace_filter`."""
        return self.run(calls.delete_filter(uuid, tag))

    def try_filter(self, wish: FilterWish) -> Conversation[FilterTrial]:
        """Say to which waiting jobs a rule would apply; nothing is changed."""
        return self.run(calls.try_filter(wish))

    def locks(self, names: Sequence[str] = ()) -> Conversation[tuple[LockState, ...]]:
        """Who holds and who waits for each lock; for these, or all."""
        return (yield from self.run(calls.list_locks(names))).locks

    def queue(self) -> Conversation[Queue]:
        """The state of the queue."""
        return self.run(calls.get_queue())

    def me(self) -> Conversation[Caller]:
        """The caller, as the server sees it."""
        return self.run(calls.get_caller())

    def events(self, topics: Sequence[Topic], ids: Sequence[int], last_id: str) -> "EventStreams":
        """The streams of events. Args: as of the clients' `events`."""
        return EventStreams(self, calls.stream_events(topics, ids), last_id)


def _is_awaited(job: Job, states: Sequence[str]) -> bool:
    """Whether a job is in one of these states, or has ended."""
    status = None if job.status is None else job.status.value
    return status in states or status in FINAL_NAMES


class EventStreams:
    """Streams of events, one after the other: each goes on where the one before broke."""

    def __init__(self, conversations: Conversations, call: HttpCall[None], last_id: str) -> None:
        self._conversations = conversations
        self._clock = conversations.clock
        self.call = call
        # of the stream that is to be opened, or is open
        self.parser = EventParser(last_id)
        # seconds to wait before it is opened
        self.pause_s = 0.0
        # attempts since an event came, and the time of the first
        self._attempts = 0
        self._began = self._clock()

    def take(self, event: Event) -> Iterator[News]:
        """What an event of the stream tells: nothing if only a newer server has it."""
        self._attempts = 0
        if (news := read_news(event)) is not None:
            yield news

    def broke(self, error: NoReply | None) -> None:
        """The stream is over; the next one may be opened after `pause_s`. Args: error: None: the server has ended it.

        Raises: NoReply: the server stays away.
        """
        lost = error or NoReply(f"{self._conversations.place.name} ended the stream of events", self.parser.failure())
        if self._attempts == 0:
            # a stream may have been quiet for long before it broke
            self._began = self._clock()
        self._attempts += 1
        pause = self._conversations.next_pause(lost.failure, self._attempts, self._began, is_repeatable=True)
        if pause is None:
            raise lost
        self.pause_s = pause
        self.parser = EventParser(self.parser.last_id, self.parser.retry_s)


class AnyRapidClient(ABC):
    """What both clients are: they call a server over HTTP.

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
        self._talks = Conversations(place, timeout_s, patience_s, self._now)
        self._open(connecting.options(place))

    @abstractmethod
    def _open(self, options: connecting.ClientOptions) -> None:
        """Make the client of httpx2; it connects later."""

    @abstractmethod
    def _now(self) -> float:
        """The time, in seconds."""

"""Follow jobs: by luxid's feed over one connection, else by calls that wait."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Final, Protocol, TypeVar, cast

import attrs

from cli.connection import FeedLuxid, Luxid, luxid_opener, open_feed, open_luxid
from common.errors import GantryError, InvalidRequest, JobLost, RemoteError, Unavailable, UnknownMethod
from common.ids import JobId
from common.queue.jobs import FINAL_NAMES, LogEntry, to_seconds
from common.system.shortages import start_thread
from common.wire import structure
from common.words.fields import JobRow
from common.words.logs import LogLine
from common.words.outcome import no_such_job
from protocol.luxi.feed import (
    FeedBegin,
    FeedChanges,
    FeedPlace,
    JobNews,
    OutputPlace,
    Subscribe,
    Topic,
    job_news,
    read_changes,
)
from protocol.luxi.jobs import OutputStream, OutputTimes, ReadJobOutput, ReadOutputTimes
from protocol.luxi.queries import FieldValue, QueryJobs, WaitForJobChange
from protocol.messages import Request
from protocol.unixsocket import pauses

# Events of jobs, and what brings them.


@attrs.frozen
class JobUpdate:
    """A new state of a job, and its log entries since the last one."""

    job_id: int
    status: str
    values: JobRow
    log: tuple[LogLine, ...]

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_NAMES


@attrs.frozen
class OutputPiece:
    """A piece of the output of a job's commands."""

    job_id: int
    text: str
    stream: OutputStream


Event = JobUpdate | OutputPiece


class EventFollower(Protocol):
    """Brings the events of jobs, in the order of their arrival, until all have ended and everything was told."""

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event; None if none came within `timeout_s` seconds, or none will come any more.

        Raises: JobLost: a job does not exist. RemoteError, Unavailable: as `BlockingClient.call`; a restart of luxid
            is waited for.
        """
        ...

    @property
    def is_done(self) -> bool:
        """All jobs have ended and everything has been told."""
        ...

    def __iter__(self) -> Iterator[Event]: ...

    def close(self) -> None:
        """Follow no longer."""
        ...


def change_of(job_id: int, fields: Sequence[str], values: Sequence[object], entries: Iterable[LogEntry]) -> JobUpdate:
    """The change that luxid tells.

    Args: fields: names of the values; `status` comes first.
    Raises: Unavailable: it does not know the job's state.
    """
    status = values[0] if values else None
    if not isinstance(status, str):
        raise Unavailable(f"luxid cannot tell the state of job {job_id}; its log says why")
    log = tuple(LogLine(each.serial, to_seconds(each.at), each.kind, each.message) for each in entries)
    return JobUpdate(job_id, status, cast(JobRow, dict(zip(fields, values, strict=True))), log)


def read_job(client: Luxid, job_id: int, fields: Sequence[str], after: int = 0) -> JobUpdate:
    """The present state of a job, as of one that is archived, and its log entries after a serial.

    Raises: JobLost: there is no such job. Else as `BlockingClient.call`.
    """
    values = client.call(QueryJobs((JobId(job_id),), (*fields, "oplog")))[0]
    if values[0] is None:
        raise JobLost(no_such_job(job_id))
    logs = structure(values[-1], tuple[tuple[LogEntry, ...], ...], "log")
    return change_of(job_id, fields, values[:-1], (entry for log in logs for entry in log if entry.serial > after))


# Follow jobs by calls that wait: where luxid has no feed.
#
# Each job is followed by a blocking call that returns when something has changed
# (`WaitForJobChange`, `ReadJobOutput`). Several jobs are followed by threads with a connection
# each, and all events arrive in one queue. With more than `MOST_THREADS` followers the rest take
# turns: one is started when another has ended.


R = TypeVar("R")

# seconds that luxid may hold a call open; it allows 89
PATIENCE_S: Final = 60.0
# seconds to wait for a luxid that has gone, so that its restart is not noticed
RESTART_S: Final = 60.0
MOST_THREADS: Final = 64


_Failure = BaseException
_Task = Callable[[Luxid], Iterator[Event]]


def job_changes(
    client: Luxid,
    job_id: int,
    fields: Sequence[str],
    *,
    deadline: float | None = None,
    is_patient: bool = False,
) -> Iterator[JobUpdate]:
    """Yield all changes of a job, from its present state until it is final.

    Args:
        fields: names of luxid's job fields; `status` comes first.
        deadline: on the monotonic clock; at the deadline the iterator ends, even if the job is not final.
        is_patient: wait for luxid also at the first call, because it was there before.

    Raises:
        JobLost: the job does not exist.
        RemoteError, Unavailable: as `BlockingClient.call`; a restart of luxid is waited for.
    """
    previous: tuple[FieldValue, ...] | None = None
    serial = 0
    while True:
        left = PATIENCE_S if deadline is None else min(max(deadline - time.monotonic(), 0), PATIENCE_S)
        request = WaitForJobChange(JobId(job_id), tuple(fields), previous, serial, left)
        try:
            is_first = previous is None and not is_patient
            news = client.call(request) if is_first else _call_patiently(client, request)
        except RemoteError as error:
            if error.wire_name != JobLost.wire_name:
                raise
            yield read_job(client, job_id, fields)
            return
        if news.values != previous or news.entries:
            change = change_of(job_id, fields, news.values, news.entries)
            previous, serial = news.values, max([serial, *(line.serial for line in change.log)])
            yield change
            if change.is_final:
                return
        elif deadline is not None and time.monotonic() >= deadline:
            return


def _call_patiently(client: Luxid, request: Request[R]) -> R:
    return client.call_retrying(request, timeout_s=PATIENCE_S + RESTART_S)


def job_output(
    client: Luxid,
    job_id: int,
    stream: OutputStream = OutputStream.OUTPUT,
    *,
    is_following: bool,
    is_patient: bool = False,
    of_try: int | None = None,
) -> Iterator[OutputPiece]:
    """Yield the output of a job's commands in pieces: all that there is now, or all until the job is final.

    Args:
        is_patient: as for `job_changes`.
        of_try: number of the try, from 1, of which alone the output is wanted; None: all.
    Raises: as `BlockingClient.call`; a restart of luxid is waited for when following.
    """
    # luxid replies to this call at once, so the call fails at once if there is no luxid
    asked = None if stream is OutputStream.OUTPUT else stream
    first = ReadJobOutput(JobId(job_id), stream=asked, of_try=of_try)
    piece = _call_patiently(client, first) if is_patient else client.call(first)
    while True:
        if piece.text:
            yield OutputPiece(job_id, piece.text, stream)
        if piece.is_end or not (is_following or piece.text):
            return
        timeout_s = PATIENCE_S if is_following else 0.0
        request = ReadJobOutput(JobId(job_id), piece.next_offset, timeout_s, asked, of_try=of_try)
        piece = _call_patiently(client, request) if is_following else client.call(request)


@attrs.frozen
class TimedLine:
    """A line of a job's output, and when its first byte came; None: that is not known."""

    job_id: int
    at: float | None
    text: str


def timed_lines(
    client: Luxid, job_id: int, stream: OutputStream, *, is_following: bool, of_try: int | None = None
) -> Iterator[TimedLine]:
    """Yield the lines of a job's output: all that there are now, or all until the job is final.

    Args, Raises: as of `job_output`.
    """
    read, timeout_s = _call_patiently if is_following else _call, PATIENCE_S if is_following else 0.0
    offset, begun = 0, b""
    while True:
        call = ReadJobOutput(JobId(job_id), offset, timeout_s, stream, as_bytes=True, of_try=of_try)
        piece = read(client, call)
        content = piece.text.encode("latin-1")
        is_end = piece.is_end or not (content or is_following)
        if begun and (is_end or piece.next_offset != offset + len(content)):
            # it ends without a line feed, or what followed is not kept
            yield from _timed(client, job_id, stream, offset - len(begun), [begun])
            begun = b""
        offset = piece.next_offset
        if content:
            *lines, rest = (begun + content).split(b"\n")
            yield from _timed(client, job_id, stream, offset - len(begun) - len(content), lines)
            begun = rest
        if is_end:
            return


def _timed(
    client: Luxid, job_id: int, stream: OutputStream, offset: int, lines: Sequence[bytes]
) -> Iterator[TimedLine]:
    """Args: offset: byte with which the first line begins."""
    end = offset + sum(len(line) + 1 for line in lines)
    times: OutputTimes | None = None
    for line in lines:
        if times is None or (times.until is not None and offset >= times.until):
            times = _call_patiently(client, ReadOutputTimes(JobId(job_id), offset, end, stream))
        yield TimedLine(job_id, times.at(offset), line.decode(errors="replace"))
        offset += len(line) + 1


def _call(client: Luxid, request: Request[R]) -> R:
    return client.call(request)


class CallFollowers:
    """Follows jobs in threads; all events come out in the order of their arrival.

    Luxid is assumed to be there; its restart is waited for. The threads are daemons, so the
    program can end without stopping them.

    Args:
        open_luxid: makes the connection of a thread.
        streams: streams of the jobs' commands to follow; empty: no output.
        fields: as for `job_changes`; none: only output is wanted.
    Raises: NoThread.
    """

    def __init__(
        self,
        open_luxid: Callable[[], Luxid],
        job_ids: Sequence[int],
        streams: Sequence[OutputStream],
        fields: Sequence[str],
    ) -> None:
        self._open_luxid = open_luxid
        self._events: queue.SimpleQueue[Event | _Failure | None] = queue.SimpleQueue()
        self._tasks: deque[_Task] = deque()
        for job_id in job_ids:
            if fields:
                self._tasks.append(partial(job_changes, job_id=job_id, fields=fields, is_patient=True))
            output = _tolerant_output if fields else partial(job_output, is_following=True)
            for stream in streams:
                self._tasks.append(partial(output, job_id=job_id, stream=stream))
        self._running = 0
        for _ in range(min(len(self._tasks), MOST_THREADS)):
            start_thread(threading.Thread(target=self._work, daemon=True))
            self._running += 1

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event; None if none came within `timeout_s` seconds, or none will come any more.

        Raises: the exception of a follower: as `job_changes`.
        """
        while self._running:
            try:
                event = self._events.get(timeout=timeout_s)
            except queue.Empty:
                return None
            if isinstance(event, BaseException):
                raise event
            if event is not None:
                return event
            self._running -= 1
        return None

    @property
    def is_done(self) -> bool:
        """All jobs have ended and everything has been told."""
        return not self._running

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next_event()) is not None:
            yield event

    def close(self) -> None:
        """Nothing is left to do: the threads end with the program."""

    def _work(self) -> None:
        try:
            with self._open_luxid() as client:
                while self._tasks:
                    try:
                        task = self._tasks.popleft()
                    except IndexError:
                        break
                    for event in task(client):
                        self._events.put(event)
        except BaseException as error:
            self._events.put(error)
        self._events.put(None)


def _tolerant_output(client: Luxid, job_id: int, stream: OutputStream) -> Iterator[Event]:
    """The output of a job, if luxid can tell it: an archived job has none, and neither has Ganeti's luxid."""
    try:
        yield from job_output(client, job_id, stream, is_following=True, is_patient=True)
    except RemoteError as error:
        if error.code not in ("invalid", "not_found"):
            raise


# Follow any number of jobs over one connection: luxid tells each change as it happens.
#
# A restart of luxid is not noticed: the feed goes on where it was.
#
# Source: `protocol.luxi.feed`.


class JobFeed:
    """The events of jobs, until all have ended and everything was told.

    Args:
        feed: a connection for this alone.
        open_luxid: makes a connection for other questions.
        fields: names of luxid's job fields, `status` first; none: changes of jobs are not wanted.
        streams: streams of the jobs' commands to follow; empty: no output.
        hinted: called when the reasons why jobs wait may have changed; `next_event` then returns None.
    """

    def __init__(
        self,
        feed: FeedLuxid,
        open_luxid: Callable[[], Luxid],
        job_ids: Sequence[int],
        fields: Sequence[str],
        streams: Sequence[OutputStream] = (),
        *,
        has_log: bool = True,
        hinted: Callable[[], None] | None = None,
    ) -> None:
        ids = tuple(JobId(job_id) for job_id in dict.fromkeys(job_ids))
        self._ids = ids
        self._feed = feed
        self._open_luxid = open_luxid
        self._fields = tuple(fields)
        self._hinted = hinted
        topics = ((Topic.JOBS,) if fields else ()) + ((Topic.REASONS,) if hinted is not None else ())
        outputs = tuple(OutputPlace(job_id, stream, 0) for job_id in ids for stream in streams)
        serials = (0,) * len(ids) if has_log else None
        self._place = FeedPlace(Subscribe(topics, ids, self._fields, log_after=serials, outputs=outputs or None))
        # what has not ended
        self._jobs = set(ids) if fields else set()
        self._outputs = {(each.job_id, each.stream) for each in outputs}
        # last values of each job
        self._known: dict[JobId, tuple[object, ...]] = {}
        self._events: deque[Event] = deque()
        # attempts to reach luxid again; None: the connection is there
        self._attempts: Iterator[float] | None = None
        self._give_up_at = 0.0

    def begin(self) -> None:
        """Subscribe. Raises: RemoteError: luxid refuses, or has no feed. Else as `BlockingClient.call`."""
        self._take_begin(self._feed.subscribe(self._place.request()))

    @property
    def unended(self) -> list[int]:
        """The jobs that have not ended."""
        return [job_id for job_id in self._ids if job_id in self._jobs]

    @property
    def is_done(self) -> bool:
        """All jobs have ended and everything has been told."""
        return not (self._jobs or self._outputs or self._events)

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event; None if none came within `timeout_s` seconds, or none will come any more.

        Raises: JobLost: a job does not exist. RemoteError, Unavailable: as `BlockingClient.call`; a restart of luxid
            is waited for.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not (self._events or self.is_done):
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            is_told = self._read(left)
            if not self._events and (left == 0 or not is_told):
                return None
        return self._events.popleft() if self._events else None

    def __iter__(self) -> Iterator[Event]:
        while not self.is_done:
            if (event := self.next_event()) is not None:
                yield event

    def close(self) -> None:
        """Follow no longer."""
        self._feed.close()

    def _read(self, timeout_s: float | None) -> bool:
        """Take what luxid tells next; return false if it told nothing, or a hint."""
        if self._attempts is not None:
            return self._reconnect(timeout_s)
        try:
            event = self._feed.event(timeout_s)
        except Unavailable:
            self._lose()
            return True
        except RemoteError as error:
            if error.code != Unavailable.code:
                raise
            # this reader was too slow
            self._lose()
            return True
        if event is None:
            return False
        told = read_changes(*event)
        return told is None or self._take_changes(*told)

    def _lose(self) -> None:
        self._feed.close()
        if self._attempts is None:
            # luxid may be back at once
            self._attempts = pauses()
            self._give_up_at = time.monotonic() + RESTART_S

    def _reconnect(self, timeout_s: float | None) -> bool:
        """Make one attempt, and pause if luxid is not there. Raises: Unavailable, RemoteError: it stays away."""
        try:
            begun = self._feed.subscribe(self._place.request())
        except Unavailable as error:
            return self._pause(error, timeout_s)
        except RemoteError as error:
            if error.code == Unavailable.code:
                return self._pause(error, timeout_s)
            if error.wire_name != JobLost.wire_name or not self._outputs:
                raise
            # a job whose output is followed is gone altogether
            self._outputs.clear()
            self._place.drop_outputs()
            return True
        self._attempts = None
        self._take_begin(begun)
        return True

    def _pause(self, error: GantryError, timeout_s: float | None) -> bool:
        """Raises: the error, if luxid has been away for too long."""
        self._feed.close()
        if time.monotonic() > self._give_up_at or self._attempts is None:
            raise error
        pause_s = next(self._attempts)
        time.sleep(pause_s if timeout_s is None else min(pause_s, timeout_s))
        return True

    def _take_begin(self, begun: FeedBegin) -> None:
        for news in job_news(begun.jobs):
            self._take_job(news)
        self._place.begin(begun)

    def _take_changes(self, position: str, changes: FeedChanges) -> bool:
        for each in changes.outputs:
            if each.text:
                self._events.append(OutputPiece(each.job_id, each.text, each.stream))
            if each.is_end:
                self._outputs.discard((each.job_id, each.stream))
        for news in changes.jobs:
            self._take_job(news)
        self._place.go_on(position, changes)
        if changes.reasons and self._hinted is not None:
            self._hinted()
            return False
        return True

    def _take_job(self, news: JobNews) -> None:
        if news.job_id not in self._jobs:
            return
        if news.values is None:
            with self._open_luxid() as client:
                change = read_job(client, news.job_id, self._fields, self._place.serial_of(news.job_id))
        elif news.values == self._known.get(news.job_id) and not news.entries:
            return
        else:
            change = change_of(news.job_id, self._fields, news.values, news.entries)
            self._known[news.job_id] = news.values
        self._events.append(change)
        if change.is_final:
            self._jobs.discard(news.job_id)


# Follow jobs in the way that luxid has: by its feed, over one connection, else by calls that wait.
#
# Ganeti's luxid has no feed.


FIELDS: Final = ("status", "summary", "received_ts", "start_ts", "end_ts")
# a luxid with a feed also knows names
_FEED_FIELDS: Final = (*FIELDS, "name")
_STATUS: Final = ("status",)
# refusals of a luxid that does not know the call, or takes fewer jobs at once
_HAS_NONE: Final = (InvalidRequest.code, UnknownMethod.code)


def follow_jobs(
    job_ids: Sequence[int],
    streams: Sequence[OutputStream] = (),
    *,
    hinted: Callable[[], None] | None = None,
) -> EventFollower:
    """Follow these jobs from now on; a restart of luxid is waited for. Close the result.

    Args: as for `JobFeed`; without a feed nothing is hinted.
    Raises: as `BlockingClient.call`. NoThread.
    """
    opener = luxid_opener(is_patient=False)
    found = _begun(
        is_patient=False, make=lambda feed: JobFeed(feed, opener, job_ids, _FEED_FIELDS, streams, hinted=hinted)
    )
    return found or CallFollowers(opener, job_ids, streams, FIELDS)


def follow_output(job_ids: Sequence[int], stream: OutputStream) -> EventFollower:
    """Follow the output of these jobs' commands to its end, and their log; all that there is already comes first.

    Close the result.
    Raises: JobLost, as RemoteError: a job does not exist. Else as `follow_jobs`.
    """
    found = _begun(is_patient=True, make=lambda feed: JobFeed(feed, open_luxid, job_ids, _STATUS, (stream,)))
    return found or CallFollowers(luxid_opener(is_patient=True), job_ids, (stream,), _STATUS)


def until_ended(job_ids: Sequence[int], deadline: float | None = None) -> list[int]:
    """Wait until all these jobs have ended; return those that have not at the deadline.

    Args: deadline: on the monotonic clock.
    Raises: JobLost: a job does not exist. Else as `BlockingClient.call`; a restart of luxid is waited for.
    """
    feed = _begun(is_patient=True, make=lambda feed: JobFeed(feed, open_luxid, job_ids, _STATUS, has_log=False))
    if feed is None:
        with open_luxid() as client:
            # the other jobs go on meanwhile, so waiting for one after another is soon enough
            return [job_id for job_id in dict.fromkeys(job_ids) if not _ends(client, job_id, deadline)]
    with closing(feed):
        while not feed.is_done:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if feed.next_event(left) is None and left == 0:
                break
        return feed.unended


def _begun(*, is_patient: bool, make: Callable[[FeedLuxid], JobFeed]) -> JobFeed | None:
    """The feed, which has begun; None: luxid has none for these jobs."""
    connection = open_feed(is_patient=is_patient)
    if connection is None:
        return None
    feed = make(connection)
    try:
        feed.begin()
    except BaseException as error:
        connection.close()
        if not isinstance(error, RemoteError) or error.code not in _HAS_NONE:
            raise
        return None
    return feed


def _ends(client: Luxid, job_id: int, deadline: float | None) -> bool:
    """Whether the job ends before the deadline."""
    is_final = False
    for change in job_changes(client, job_id, _STATUS, deadline=deadline):
        is_final = change.is_final
    return is_final

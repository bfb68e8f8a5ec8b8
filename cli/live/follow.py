"""Follow jobs: their changes arrive as events, and nothing is polled.

Each job is followed by a blocking call that returns when something has changed
(`WaitForJobChange`, `ReadJobOutput`). Several jobs are followed by threads with a connection
each, and all events arrive in one queue. With more than `MOST_THREADS` followers the rest take
turns: one is started when another has ended.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar, cast

import attrs

from cli.luxid import Luxid
from common.errors import JobLost, RemoteError, Unavailable
from common.ids import JobId
from common.queue.jobs import FINAL_NAMES, LogEntry, to_seconds
from common.system.threadstart import start_thread
from common.wire import structure
from common.words.fields import Row
from common.words.loglines import LogLine
from common.words.outcome import no_such_job
from protocol.luxi.changes import JobChange, WaitForJobChange
from protocol.luxi.output import OutputStream, ReadJobOutput
from protocol.luxi.queries import FieldValue, QueryJobs
from protocol.messages import Request

R = TypeVar("R")

# seconds that luxid may hold a call open; it allows 89
PATIENCE_S: Final = 60.0
# seconds to wait for a luxid that has gone, so that its restart is not noticed
RESTART_S: Final = 60.0
MOST_THREADS: Final = 64

FIELDS: Final = ("status", "summary", "received_ts", "start_ts", "end_ts")


@attrs.frozen
class Change:
    """A new state of a job, and its log entries since the last one."""

    job_id: int
    status: str
    values: Row
    log: tuple[LogLine, ...]

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_NAMES


@attrs.frozen
class Output:
    """A piece of the output of a job's commands."""

    job_id: int
    text: str
    stream: OutputStream = OutputStream.OUTPUT


Event = Change | Output
_Failure = BaseException
_Task = Callable[[Luxid], Iterator[Event]]


def job_changes(
    client: Luxid,
    job_id: int,
    fields: Sequence[str] = FIELDS,
    *,
    deadline: float | None = None,
    is_patient: bool = False,
) -> Iterator[Change]:
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
            yield _archived_job(client, job_id, fields)
            return
        if news.values != previous or news.entries:
            change = _change(job_id, fields, news)
            previous, serial = news.values, max([serial, *(line.serial for line in change.log)])
            yield change
            if change.is_final:
                return
        elif deadline is not None and time.monotonic() >= deadline:
            return


def _call_patiently(client: Luxid, request: Request[R]) -> R:
    return client.call_retrying(request, timeout_s=PATIENCE_S + RESTART_S)


def _change(job_id: int, fields: Sequence[str], news: JobChange) -> Change:
    status = news.values[0]
    if not isinstance(status, str):
        raise Unavailable(f"luxid cannot tell the state of job {job_id}; its log says why")
    log = tuple(LogLine(each.serial, to_seconds(each.at), each.kind, each.message) for each in news.entries)
    return Change(job_id, status, cast(Row, dict(zip(fields, news.values, strict=True))), log)


def _archived_job(client: Luxid, job_id: int, fields: Sequence[str]) -> Change:
    values = client.call(QueryJobs((JobId(job_id),), (*fields, "oplog")))[0]
    if values[0] is None:
        raise JobLost(no_such_job(job_id))
    logs = structure(values[-1], tuple[tuple[LogEntry, ...], ...], "log")
    return _change(job_id, fields, JobChange(values[:-1], tuple(entry for log in logs for entry in log)))


def job_output(
    client: Luxid,
    job_id: int,
    stream: OutputStream = OutputStream.OUTPUT,
    *,
    is_following: bool,
    is_patient: bool = False,
) -> Iterator[Output]:
    """Yield the output of a job's commands in pieces: all that there is now, or all until the job is final.

    Args: is_patient: as for `job_changes`.
    Raises: as `BlockingClient.call`; a restart of luxid is waited for when following.
    """
    # luxid replies to this call at once, so the call fails at once if there is no luxid
    asked = None if stream is OutputStream.OUTPUT else stream
    first = ReadJobOutput(JobId(job_id), stream=asked)
    piece = _call_patiently(client, first) if is_patient else client.call(first)
    while True:
        if piece.text:
            yield Output(job_id, piece.text, stream)
        if piece.is_end or not (is_following or piece.text):
            return
        request = ReadJobOutput(JobId(job_id), piece.next_offset, PATIENCE_S if is_following else 0.0, asked)
        piece = _call_patiently(client, request) if is_following else client.call(request)


class Followers:
    """Follows jobs in threads; all events come out in the order of their arrival.

    Luxid is assumed to be there; its restart is waited for. The threads are daemons, so the
    program can end without stopping them.

    Args:
        open_luxid: makes the connection of a thread.
        streams: streams of the jobs' commands to follow; empty: no output.
    Raises: NoThread.
    """

    def __init__(
        self, open_luxid: Callable[[], Luxid], job_ids: Sequence[int], streams: Sequence[OutputStream] = ()
    ) -> None:
        self._open_luxid = open_luxid
        self._events: queue.SimpleQueue[Event | _Failure | None] = queue.SimpleQueue()
        self._tasks: deque[_Task] = deque()
        for job_id in job_ids:
            self._tasks.append(partial(job_changes, job_id=job_id, is_patient=True))
            for stream in streams:
                self._tasks.append(partial(_tolerant_output, job_id=job_id, stream=stream))
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

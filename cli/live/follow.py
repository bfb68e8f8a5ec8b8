"""Follow jobs by calls that wait: where luxid has no feed.

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
from typing import Final, TypeVar

from cli.live.events import Change, Event, Output, change_of, read_job
from cli.luxid import Luxid
from common.errors import JobLost, RemoteError
from common.ids import JobId
from common.system.threadstart import start_thread
from protocol.luxi.changes import WaitForJobChange
from protocol.luxi.output import OutputStream, ReadJobOutput
from protocol.luxi.queries import FieldValue
from protocol.messages import Request

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
) -> Iterator[Output]:
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
            yield Output(job_id, piece.text, stream)
        if piece.is_end or not (is_following or piece.text):
            return
        timeout_s = PATIENCE_S if is_following else 0.0
        request = ReadJobOutput(JobId(job_id), piece.next_offset, timeout_s, asked, of_try=of_try)
        piece = _call_patiently(client, request) if is_following else client.call(request)


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

"""Follow jobs by luxid's feed, any number over one connection."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeVar, cast

import attrs

from cli.connection import FeedLuxid, Luxid, open_feed, open_luxid
from common.errors import GantryError, JobLost, RemoteError, Unavailable
from common.ids import JobId
from common.queue.jobs import FINAL_NAMES, LogEntry, to_seconds
from common.wire import structure
from common.words.fields import JobRow
from common.words.logs import JobLogLine
from common.words.outcome import no_such_job
from protocol.luxi.feed import (
    FeedBegin,
    FeedChanges,
    FeedPlace,
    FeedTopic,
    JobNews,
    OutputPlace,
    Subscribe,
    job_news,
    read_changes,
)
from protocol.luxi.jobs import OutputStream, OutputTimes, ReadJobOutput, ReadOutputTimes
from protocol.luxi.queries import QueryJobs
from protocol.messages import Request
from protocol.unixsocket import pauses

R = TypeVar("R")

# Events of jobs, and what brings them.


@attrs.frozen
class JobUpdate:
    """A new state of a job, and its log entries since the last one."""

    job_id: int
    status: str
    values: JobRow
    log: tuple[JobLogLine, ...]

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


def change_of(job_id: int, fields: Sequence[str], values: Sequence[object], entries: Iterable[LogEntry]) -> JobUpdate:
    """The change that luxid tells.

    Args: fields: names of the values; `status` comes first.
    Raises: Unavailable: it does not know the job's state.
    """
    status = values[0] if values else None
    if not isinstance(status, str):
        raise Unavailable(f"luxid cannot tell the state of job {job_id}; its log says why")
    log = tuple(JobLogLine(each.serial, to_seconds(each.at), each.kind, each.message) for each in entries)
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


# seconds that luxid may hold a call open; it allows 89
PATIENCE_S: Final = 60.0
# seconds to wait for a luxid that has gone, so that its restart is not noticed
RESTART_S: Final = 60.0


def job_output(
    client: Luxid, job_id: int, stream: OutputStream, *, is_following: bool, of_try: int | None
) -> Iterator[OutputPiece]:
    """Yield the output of a job's commands in pieces: all that there is now, or all until the job is final.

    Args: of_try: number of the try, from 1, of which alone the output is wanted; None: all.
    Raises: as `BlockingClient.call`; a restart of luxid is waited for when following.
    """
    # luxid replies to this call at once, so the call fails at once if there is no luxid
    asked = None if stream is OutputStream.OUTPUT else stream
    piece = client.call(ReadJobOutput(JobId(job_id), stream=asked, of_try=of_try))
    while True:
        if piece.text:
            yield OutputPiece(job_id, piece.text, stream)
        if piece.is_end or not (is_following or piece.text):
            return
        timeout_s = PATIENCE_S if is_following else 0.0
        request = ReadJobOutput(JobId(job_id), piece.next_offset, timeout_s, asked, of_try=of_try)
        piece = _read(client, request, is_following=is_following)


def _read(client: Luxid, request: Request[R], *, is_following: bool) -> R:
    """Args: is_following: whether a restart of luxid is waited for. Raises: as `BlockingClient.call`."""
    if is_following:
        return client.call_retrying(request, timeout_s=PATIENCE_S + RESTART_S)
    return client.call(request)


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
    timeout_s = PATIENCE_S if is_following else 0.0
    offset, begun = 0, b""
    while True:
        call = ReadJobOutput(JobId(job_id), offset, timeout_s, stream, as_bytes=True, of_try=of_try)
        piece = _read(client, call, is_following=is_following)
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
            times = _read(client, ReadOutputTimes(JobId(job_id), offset, end, stream), is_following=True)
        yield TimedLine(job_id, times.at(offset), line.decode(errors="replace"))
        offset += len(line) + 1


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
        topics = ((FeedTopic.JOBS,) if fields else ()) + ((FeedTopic.REASONS,) if hinted is not None else ())
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
        """Subscribe. Raises: as `BlockingClient.call`."""
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


FIELDS: Final = ("status", "summary", "received_ts", "start_ts", "end_ts", "name")
_STATUS: Final = ("status",)


def follow_jobs(
    job_ids: Sequence[int],
    streams: Sequence[OutputStream] = (),
    *,
    hinted: Callable[[], None] | None = None,
) -> JobFeed:
    """Follow these jobs from now on; a restart of luxid is waited for. Close the result.

    Args: as for `JobFeed`.
    Raises: as `BlockingClient.call`. NoThread.
    """
    opener = partial(open_luxid, is_patient=False)
    return _begun(JobFeed(open_feed(is_patient=False), opener, job_ids, FIELDS, streams, hinted=hinted))


def follow_output(job_ids: Sequence[int], stream: OutputStream) -> JobFeed:
    """Follow the output of these jobs' commands to its end, and their log; all that there is already comes first.

    Close the result.
    Raises: JobLost, as RemoteError: a job does not exist. Else as `follow_jobs`.
    """
    return _begun(JobFeed(open_feed(), open_luxid, job_ids, _STATUS, (stream,)))


def until_ended(job_ids: Sequence[int], deadline: float | None = None) -> list[int]:
    """Wait until all these jobs have ended; return those that have not at the deadline.

    Args: deadline: on the monotonic clock.
    Raises: JobLost: a job does not exist. Else as `BlockingClient.call`; a restart of luxid is waited for.
    """
    with closing(_begun(JobFeed(open_feed(), open_luxid, job_ids, _STATUS, has_log=False))) as feed:
        while not feed.is_done:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if feed.next_event(left) is None and left == 0:
                break
        return feed.unended


def _begun(feed: JobFeed) -> JobFeed:
    try:
        feed.begin()
    except BaseException:
        feed.close()
        raise
    return feed

"""Follow any number of jobs over one connection: luxid tells each change as it happens.

A restart of luxid is not noticed: the feed goes on where it was.

Source: `protocol.luxi.feed`.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cli.live.events import Event, Output, change_of, read_job
from cli.luxid import FeedLuxid, Luxid
from common.errors import GantryError, JobLost, RemoteError, Unavailable
from common.ids import JobId
from protocol.dial import pauses
from protocol.luxi.feed import FeedBegin, FeedChanges, JobNews, OutputPlace, Subscribe, Topic, job_news, read_changes
from protocol.luxi.feedplace import FeedPlace
from protocol.luxi.output import OutputStream

# seconds to wait for a luxid that has gone, so that its restart is not noticed
RESTART_S: Final = 60.0


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
                self._events.append(Output(each.job_id, each.text, each.stream))
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

"""Tells the subscribers, in turns, what has changed.

Theory. A change costs its cause one entry in a table (`FeedNews`). A task takes the entries in turns: it makes a row of
each changed job once for all who want the same of it, and leaves one message for each subscriber whom they concern.
After a turn it pauses for twice the time that the turn took: so under load more changes share a turn, and the feed
takes no more than a third of the time. Nobody is waited for.

Source: DESIGN section 6; `protocol.luxi.feed` has the promises.
"""

import os
import secrets
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Final

import trio

from common.asciijson import ascii_json
from common.errors import InternalError
from common.ids import JobId
from common.queue.jobs import Job, JobState, LogEntry
from common.system.log import get_log
from common.wire import unstructure
from daemons.luxid.core.feed.interests import Interests
from daemons.luxid.core.feed.recentchanges import RecentChanges
from daemons.luxid.core.queue.decisions import AT_REST, Phase
from daemons.luxid.feed.changedjobs import ChangedJob
from daemons.luxid.feed.messages import changes_message, rows
from daemons.luxid.feed.stream import FeedStream
from daemons.luxid.jobs.jobviews import JobViews
from daemons.luxid.jobs.livejobs import LiveJobs
from protocol.luxi.feed import QueueState, Topic
from protocol.stream import Stream

# jobs told in a turn
AT_ONCE: Final = 200
# seconds between two hints that reasons may have changed
REASONS_S: Final = 0.25
# seconds for which changes are noted after the last subscriber has gone, so that it can resume
KEPT_S: Final = 60.0
# seconds
_LONGEST_PAUSE_S: Final = 0.1
_log: Final = get_log(__name__)
Fresh = Mapping[tuple[JobId, int], list[LogEntry]]


class Feed:
    """The subscribers, and what they are told; start `run`.

    Args:
        state: returns the state of the queue.
        catch_up: takes in changes of job files that have happened but were not reported yet.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        views: JobViews,
        state: Callable[[], QueueState],
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        self.jobs, self.views, self.catch_up = jobs, views, catch_up
        self.news = jobs.news
        self.recent = RecentChanges(os.urandom(8).hex())
        self._state = state
        self._streams: dict[FeedStream, None] = {}
        self._interests: Interests[FeedStream] = Interests()
        # followers of output, which must hear of the end of a job
        self._readers: Interests[FeedStream] = Interests()
        # subscribers whose first reply is being made
        self._joining = 0
        # on trio's clock
        self._left_at = 0.0
        self._hint_at = 0.0
        # the state as told last
        self._told_state = b""

    # who listens

    def expect(self) -> None:
        """A subscriber is about to join: note all changes from now on."""
        self._joining += 1
        self.news.is_on = True

    def join(self, stream: FeedStream) -> None:
        """Tell this subscriber of all that changes from now on."""
        self._streams[stream] = None
        if stream.has_jobs and stream.job_ids is not None:
            self._interests.add(stream, stream.job_ids)
        self._readers.add(stream, stream.followed)
        if Topic.QUEUE in stream.topics:
            # it was told a state that others may not have been told
            self._told_state = b""
            self.news.queue_changed()

    def expected(self) -> None:
        """A subscriber has joined, or could not."""
        self._joining -= 1
        self._left_at = trio.current_time()

    def forget(self, stream: Stream[object]) -> None:
        assert isinstance(stream, FeedStream)
        if stream in self._streams:
            del self._streams[stream]
            self._interests.drop(stream, stream.job_ids or ())
            self._readers.drop(stream, stream.followed)
            self._left_at = trio.current_time()

    # what they are told

    async def run(self) -> None:
        """Tell the subscribers, until cancelled."""
        while True:
            with trio.move_on_at(self._hint_at) if self.news.has_reasons else trio.CancelScope():
                await self.news.wait()
            began_at = trio.current_time()
            try:
                await self._turn()
            except Exception:
                self._give_up()
            if not (self._streams or self._joining) and trio.current_time() > self._left_at + KEPT_S:
                self.news.drop()
                self.recent.forget()
            await trio.sleep(min(2 * (trio.current_time() - began_at), _LONGEST_PAUSE_S))

    def _give_up(self) -> None:
        """A turn has failed, by a fault of luxid: what was told is incomplete, so all begin anew."""
        bug_id = secrets.token_hex(4)
        _log.exception("feed.crashed", id=bug_id, subscribers=len(self._streams))
        self.recent.forget()
        for stream in self._streams:
            stream.end(InternalError(f"internal error {bug_id}; luxid's log has it under this id", id=bug_id))

    async def _turn(self) -> None:
        taken, grown = self.news.take(AT_ONCE)
        fresh = await self._fresh_lines({*taken, *grown})
        changed = await self.look(taken)
        logged = [self.now(job_id) for job_id in grown if job_id not in taken]
        # no task runs from here on: what is told is as new as what a query would find
        self.recent.turn((*taken, *grown))
        self._tell(changed, logged, fresh)

    async def look(self, job_ids: Mapping[JobId, Job | None]) -> list[ChangedJob]:
        """The present states of these jobs.

        Args: job_ids: each with the job, if it may not be in memory.
        """
        table = self.jobs.table
        unread = [each for each, job in job_ids.items() if job is None and each in table and not table.in_memory(each)]
        read = dict(zip(unread, await table.get_many(unread, is_lenient=True), strict=True)) if unread else {}
        return [self.now(job_id, job or read.get(job_id)) for job_id, job in job_ids.items()]

    def now(self, job_id: JobId, ended: Job | None = None) -> ChangedJob:
        """The present state of a job.

        Args: ended: the job, if it has ended.
        """
        job = self.jobs.table.in_memory(job_id) or (ended if job_id in self.jobs.table else None)
        return ChangedJob(job_id, self.views.of(job) if job is not None else None)

    async def _fresh_lines(self, job_ids: Iterable[JobId]) -> Fresh:
        by_job = ((job_id, stream) for job_id in job_ids for stream in self._interests.of(job_id))
        return await self.fresh_lines(
            {(job_id, stream.serials[job_id]) for job_id, stream in by_job if stream.serials is not None}
        )

    async def fresh_lines(self, wanted: Iterable[tuple[JobId, int]]) -> Fresh:
        """The log lines of running jobs after some serials; afterwards the jobs are known to be as far as the lines."""
        found: dict[tuple[JobId, int], list[LogEntry]] = {}
        for job_id, after in wanted:
            if (job := self.jobs.table.in_memory(job_id)) is not None:
                found[job_id, after] = self.views.newer_log(job, after)
        if any(found.values()):
            # a subscriber that reads a line must find the job in the state that it had when it wrote the line
            await self.catch_up()
        return found

    def _tell(self, changed: list[ChangedJob], logged: list[ChangedJob], fresh: Fresh) -> None:
        parts: dict[FeedStream, dict[str, bytes]] = {}
        for stream, encoded in self._job_parts(changed, logged, fresh):
            parts[stream] = {"jobs": encoded}
        for name, encoded, told in self._common_parts():
            for stream in told:
                parts.setdefault(stream, {})[name] = encoded
        position = self.recent.position
        messages: dict[tuple[tuple[str, bytes], ...], bytes] = {}
        for stream, its in parts.items():
            key = tuple(its.items())
            if (message := messages.get(key)) is None:
                message = messages[key] = changes_message(position, its)
            stream.position = position
            stream.put(message)

    def _job_parts(
        self, changed: list[ChangedJob], logged: list[ChangedJob], fresh: Fresh
    ) -> Iterable[tuple[FeedStream, bytes]]:
        by_stream: dict[FeedStream, list[bytes]] = {}
        for each in changed:
            for stream in self._interests.of(each.job_id):
                by_stream.setdefault(stream, []).append(each.row(stream.wish, self.entries(each, stream, fresh)))
            if self.jobs.phase(each.job_id) is None:
                for stream in self._readers.of(each.job_id):
                    stream.ended(each.job_id)
        for each in logged:
            for stream in self._interests.of(each.job_id):
                if entries := self.entries(each, stream, fresh):
                    by_stream.setdefault(stream, []).append(each.row(stream.wish, entries))
        yield from ((stream, rows(its)) for stream, its in by_stream.items())
        of_all: dict[Hashable, bytes] = {}
        for stream in self._streams if changed else ():
            if stream.has_jobs and stream.job_ids is None:
                if (encoded := of_all.get(stream.wish.kind)) is None:
                    encoded = of_all[stream.wish.kind] = rows(each.row(stream.wish) for each in changed)
                yield stream, encoded

    def entries(self, changed: ChangedJob, stream: FeedStream, fresh: Fresh) -> list[LogEntry]:
        """The log entries that the subscriber does not have; from now on it has them."""
        if stream.serials is None:
            return []
        after = stream.serials[changed.job_id]
        more = fresh.get((changed.job_id, after), [])
        entries = changed.entries(stream.wish, after, more)
        if entries:
            stream.serials[changed.job_id] = entries[-1].serial
        if more:
            # there may be more than is read at once
            self.news.log_grew(changed.job_id)
        return entries

    def _common_parts(self) -> Iterable[tuple[str, bytes, list[FeedStream]]]:
        """What is the same for all who want it, and who they are."""
        if told := self._with(Topic.QUEUE):
            state = self.state_part()
            if state != self._told_state:
                self._told_state = state
                yield "queue", state, told
        if self.news.has_rules:
            self.news.has_rules = False
            yield "filters", self.rules_part(), self._with(Topic.FILTERS)
        if self.news.has_reasons and trio.current_time() >= self._hint_at:
            self.news.has_reasons = False
            self._hint_at = trio.current_time() + REASONS_S
            yield "reasons", b"true", [each for each in self._with(Topic.REASONS) if self._has_waiting(each)]

    def _with(self, topic: Topic) -> list[FeedStream]:
        return [stream for stream in self._streams if topic in stream.topics]

    def _has_waiting(self, stream: FeedStream) -> bool:
        return stream.job_ids is None or any(map(self._waits, stream.job_ids))

    def _waits(self, job_id: JobId) -> bool:
        phase = self.jobs.phase(job_id)
        return phase in AT_REST or (phase is Phase.RUNNING and self.jobs.unended(job_id).state is JobState.WAITING)

    def state_part(self) -> bytes:
        return ascii_json(unstructure(self._state()))

    def rules_part(self) -> bytes:
        return ascii_json(unstructure(self.news.rules))

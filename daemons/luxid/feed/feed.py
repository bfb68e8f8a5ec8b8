"""Tells the subscribers, in turns, what has changed.

Theory. A change costs its cause one entry in a table (`FeedNews`). A task takes the entries in turns: it makes a row of
each changed job once for all who want the same of it, and leaves one message for each subscriber whom they concern.
After a turn it pauses for twice the time that the turn took: so under load more changes share a turn, and the feed
takes no more than a third of the time. Nobody is waited for.

Source: DESIGN section 6; `protocol.luxi.feed` has the promises.
"""

import os
import secrets
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import Final, cast

import orjson
import trio

from common.errors import InternalError, Unavailable
from common.ids import JobId
from common.jsontext import ascii_json
from common.queue.jobs import Job, JobState, LogEntry
from common.system.inthread import give_way
from common.system.log import get_log
from common.wire import unstructure
from daemons.luxid.core.feed import Interests, RecentChanges
from daemons.luxid.core.queue.entry import AT_REST, Phase
from daemons.luxid.feed.stream import FeedStream, FollowedJobState, begin_message, changes_message, rows
from daemons.luxid.files.store import Store
from daemons.luxid.jobs import JobViews, LiveJobs
from protocol.luxi.feed import FeedBegin, FeedTopic, QueueState, Subscribe
from protocol.serving.route import Stream

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
        if FeedTopic.QUEUE in stream.topics:
            # it was told a state that others may not have been told
            self._told_state = b""
            self.news.tell_queue()

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

    async def look(self, job_ids: Mapping[JobId, Job | None]) -> list[FollowedJobState]:
        """The present states of these jobs.

        Args: job_ids: each with the job, if it may not be in memory.
        """
        table = self.jobs.table
        unread = [each for each, job in job_ids.items() if job is None and each in table and not table.in_memory(each)]
        read = dict(zip(unread, await table.get_many(unread, is_lenient=True), strict=True)) if unread else {}
        return [self.now(job_id, job or read.get(job_id)) for job_id, job in job_ids.items()]

    def now(self, job_id: JobId, ended: Job | None = None) -> FollowedJobState:
        """The present state of a job.

        Args: ended: the job, if it has ended.
        """
        job = self.jobs.table.in_memory(job_id) or (ended if job_id in self.jobs.table else None)
        return FollowedJobState(job_id, self.views.of(job) if job is not None else None)

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

    def _tell(self, changed: list[FollowedJobState], logged: list[FollowedJobState], fresh: Fresh) -> None:
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
        self, changed: list[FollowedJobState], logged: list[FollowedJobState], fresh: Fresh
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

    def entries(self, changed: FollowedJobState, stream: FeedStream, fresh: Fresh) -> list[LogEntry]:
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
        if told := self._with(FeedTopic.QUEUE):
            state = self.state_part()
            if state != self._told_state:
                self._told_state = state
                yield "queue", state, told
        if self.news.has_rules:
            self.news.has_rules = False
            yield "filters", self.rules_part(), self._with(FeedTopic.FILTERS)
        if self.news.has_reasons and trio.current_time() >= self._hint_at:
            self.news.has_reasons = False
            self._hint_at = trio.current_time() + REASONS_S
            yield "reasons", b"true", [each for each in self._with(FeedTopic.REASONS) if self._has_waiting(each)]

    def _with(self, topic: FeedTopic) -> list[FeedStream]:
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


# The first reply to a subscriber: what is so now, or what has changed since it left.
#
# Theory. To make 100,000 rows takes a while, and other tasks run in between. What changes meanwhile is made again,
# until only little is left: that is noted as changed once more, and in the same step the subscriber joins the feed,
# which tells it in the next turn. So nothing is missed, and no row is older than one that came before.
#
# Source: `protocol.luxi.feed`.


async def begin(feed: Feed, call: Subscribe, stream: FeedStream) -> None:
    """Make the first reply, and let the subscriber join.

    Raises: Unavailable: too much changes.
    Cancellation: the subscriber has not joined.
    """
    feed.expect()
    try:
        since = feed.recent.read(call.since) if call.since is not None else None
        parts = _Rows(feed, stream)
        if stream.has_jobs:
            await parts.make(_wanted(feed, call, stream, since))
        feed.join(stream)
        position = feed.recent.position
        message = _message(feed, stream.topics, position, parts, is_resumed=since is not None)
        stream.start(position, cast(FeedBegin, orjson.Fragment(message)))
    finally:
        feed.expected()


def _wanted(feed: Feed, call: Subscribe, stream: FeedStream, since: int | None) -> Sequence[JobId]:
    if since is not None:
        return feed.recent.since(since, call.ids) or ()
    if not call.with_snapshot:
        return ()
    return feed.jobs.table.ids() if call.ids is None else call.ids


def _message(feed: Feed, topics: Set[FeedTopic], position: str, made: "_Rows", *, is_resumed: bool) -> bytes:
    parts = {"jobs": made.encoded()}
    if FeedTopic.FILTERS in topics:
        parts["filters"] = feed.rules_part()
    if FeedTopic.QUEUE in topics:
        parts["queue"] = feed.state_part()
    return begin_message(position, parts, is_resumed=is_resumed)


class _Rows:
    """The rows of a first reply."""

    def __init__(self, feed: Feed, stream: FeedStream) -> None:
        self._feed = feed
        self._stream = stream
        self._jobs: dict[JobId, bytes] = {}
        self._entries: dict[JobId, list[LogEntry]] = {}

    async def make(self, job_ids: Sequence[JobId]) -> None:
        """Make the rows of these jobs; what changes meanwhile is told in the next turn.

        Raises: Unavailable: too much changes.
        """
        recent, among = self._feed.recent, self._stream.job_ids
        while job_ids:
            turn = recent.serial
            for start in range(0, len(job_ids), AT_ONCE):
                await self._make_some(job_ids[start : start + AT_ONCE])
                await give_way()
            changed = recent.since(turn, among)
            if changed is None:
                raise Unavailable("too much changes at the moment to tell the state of all jobs; subscribe again")
            if len(changed) <= AT_ONCE:
                for job_id in changed:
                    # those who join now hear of it in the next turn
                    self._feed.news.tell_job(job_id)
                return
            job_ids = changed

    async def _make_some(self, job_ids: Sequence[JobId]) -> None:
        feed, stream = self._feed, self._stream
        fresh: Fresh = {}
        if stream.serials is not None:
            fresh = await feed.fresh_lines((job_id, stream.serials[job_id]) for job_id in job_ids)
        for changed in await feed.look(dict.fromkeys(job_ids)):
            self._entries.setdefault(changed.job_id, []).extend(feed.entries(changed, stream, fresh))
            self._jobs[changed.job_id] = changed.row(stream.wish, self._entries[changed.job_id])

    def encoded(self) -> bytes:
        """The list of rows."""
        return rows(self._jobs.values())


# The queue as a whole, as luxid's feed tells it.
#
# Source: `protocol.luxi.feed`.


def queue_state(store: Store, jobs: LiveJobs) -> QueueState:
    """The present state."""
    counts = jobs.queue.counts()
    return QueueState(
        is_drained=store.is_drained,
        running=counts.starting + counts.running + counts.orphaned,
        max_running_jobs=jobs.queue.slots,
        ready=counts.ready,
        blocked=counts.blocked,
        deferred=counts.deferred,
        held=counts.held,
        obstacles=tuple(sorted(jobs.obstacles)),
    )

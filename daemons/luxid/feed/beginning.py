"""The first reply to a subscriber: what is so now, or what has changed since it left.

Theory. To make 100,000 rows takes a while, and other tasks run in between. What changes meanwhile is made again, until
only little is left: that is noted as changed once more, and in the same step the subscriber joins the feed, which tells
it in the next turn. So nothing is missed, and no row is older than one that came before.

Source: `protocol.luxi.feed`.
"""

from collections.abc import Sequence, Set
from typing import cast

import orjson
import trio

from common.errors import Unavailable
from common.ids import JobId
from common.queue.jobs import LogEntry
from daemons.luxid.feed.feed import AT_ONCE, Feed, Fresh
from daemons.luxid.feed.messages import begin_message, rows
from daemons.luxid.feed.stream import FeedStream
from protocol.luxi.feed import FeedBegin, Subscribe, Topic


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


def _message(feed: Feed, topics: Set[Topic], position: str, made: "_Rows", *, is_resumed: bool) -> bytes:
    parts = {"jobs": made.encoded()}
    if Topic.FILTERS in topics:
        parts["filters"] = feed.rules_part()
    if Topic.QUEUE in topics:
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
                await trio.lowlevel.checkpoint()
            changed = recent.since(turn, among)
            if changed is None:
                raise Unavailable("too much changes at the moment to tell the state of all jobs; subscribe again")
            if len(changed) <= AT_ONCE:
                for job_id in changed:
                    # those who join now hear of it in the next turn
                    self._feed.news.job_changed(job_id)
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

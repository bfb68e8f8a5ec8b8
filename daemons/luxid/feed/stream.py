"""One subscriber of luxid's feed.

Source: DESIGN section 6.
"""

from collections.abc import Sequence
from typing import Final

from common.ids import JobId
from daemons.luxid.feed.changedjobs import Wish
from daemons.luxid.feed.followedoutputs import FollowedOutputs
from daemons.luxid.feed.messages import changes_message
from protocol.luxi.feed import FeedBegin, Topic
from protocol.stream import Forgets, Stream

# backlog in bytes above which a subscriber is dropped; it can resume
BACKLOG_LIMIT: Final = 4 * 2**20


class FeedStream(Stream[FeedBegin]):
    """What one subscriber wants, and what waits for it.

    Args:
        job_ids: None: all jobs.
        serials: for each of `job_ids` the last log entry that the subscriber has; None: no log is wanted.
        outputs: None: no output is wanted.
    """

    def __init__(
        self,
        feed: Forgets,
        topics: frozenset[Topic],
        wish: Wish,
        job_ids: Sequence[JobId] | None,
        serials: dict[JobId, int] | None,
        outputs: FollowedOutputs | None,
        limit: int = BACKLOG_LIMIT,
    ) -> None:
        super().__init__(feed, FeedBegin(""), limit)
        self.topics = topics
        self.wish = wish
        self.job_ids = job_ids
        self.serials = serials
        # jobs whose output is followed; some of them may have ended
        self.followed = outputs.job_ids if outputs is not None else frozenset()
        self._outputs = outputs
        # the last place that was told, also by messages that wait here
        self.position = ""
        # the last place of the messages that were taken
        self._taken = ""
        if outputs is not None:
            outputs.begin(self.wake)

    def start(self, position: str, first: FeedBegin) -> None:
        """The first reply, and the place to which it leads."""
        self.position = self._taken = position
        self.first = first

    @property
    def has_jobs(self) -> bool:
        """Whether changes of jobs are wanted."""
        return Topic.JOBS in self.topics

    def put(self, message: bytes) -> None:
        """As `Stream.put`, but the backlog may exceed the limit by one message: one turn may have much to tell."""
        if self.is_full:
            self.end_slow()
        elif not self.has_ended:
            self.keep(message)

    def ended(self, job_id: JobId) -> None:
        """A job whose output is followed has ended."""
        if self._outputs is not None:
            self._outputs.printed(job_id)

    def _more(self) -> bytes:
        """Output is read when there is room for it: a subscriber that does not read costs nothing."""
        # goes before the messages that wait: who has read only this must not go on after them
        position, self._taken = self._taken, self.position
        if self._outputs is None:
            return b""
        rows = self._outputs.read()
        if self._outputs.has_news:
            self.wake()
        return changes_message(position, {"outputs": rows}) if rows else b""

    def close(self) -> None:
        super().close()
        if self._outputs is not None:
            self._outputs.close()

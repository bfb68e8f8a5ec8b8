"""How far a subscriber has read luxid's feed, so that it can continue over a new connection.

Source: DESIGN section 6.
"""

import attrs

from common.ids import JobId
from protocol.luxi.feed import FeedBegin, FeedChanges, JobNews, OutputPlace, Subscribe, job_news


class FeedPlace:
    """The place of one subscriber.

    Args: asked: the first request.
    """

    def __init__(self, asked: Subscribe) -> None:
        self._asked = asked
        self._position = asked.since
        serials = asked.log_after
        self._serials = None if serials is None else dict(zip(asked.ids or (), serials, strict=True))
        self._offsets = {(each.job_id, each.stream): each.offset for each in asked.outputs or ()}

    @property
    def position(self) -> str | None:
        """The last position; None: nothing was read yet."""
        return self._position

    def serial_of(self, job_id: JobId) -> int:
        """The last log entry of the job that was read."""
        return (self._serials or {}).get(job_id, 0)

    def drop_outputs(self) -> None:
        """Want no output any more."""
        self._offsets.clear()

    def request(self) -> Subscribe:
        """The request that continues here."""
        serials = None if self._serials is None else tuple(self._serials[job_id] for job_id in self._asked.ids or ())
        outputs = tuple(OutputPlace(job_id, stream, offset) for (job_id, stream), offset in self._offsets.items())
        return attrs.evolve(self._asked, since=self._position, log_after=serials, outputs=outputs or None)

    def begin(self, begun: FeedBegin) -> None:
        """Take note of a reply."""
        self._position = begun.position
        if self._serials is not None:
            for news in job_news(begun.jobs):
                self._note_log(news)

    def go_on(self, position: str, changes: FeedChanges) -> None:
        """Take note of a notification."""
        self._position = position
        for news in changes.jobs:
            self._note_log(news)
        for each in changes.outputs:
            if each.is_end:
                self._offsets.pop((each.job_id, each.stream), None)
            else:
                self._offsets[each.job_id, each.stream] = each.next_offset

    def _note_log(self, news: JobNews) -> None:
        if self._serials is not None and news.entries:
            self._serials[news.job_id] = max(entry.serial for entry in news.entries)

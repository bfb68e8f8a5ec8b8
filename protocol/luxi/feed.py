"""`Subscribe`: jobs, filter rules and the queue's state, then their changes as they happen, on one connection; ours.

After the reply come notifications `changes` with `[position, {...}]`: see `FeedChanges`. The connection belongs to the
feed; a caller that sends anything ends it.

What is promised:

* Each change that becomes known after the reply is told. A row has the job's state when the row was made, and later
  rows of a job are newer. States that last less than a turn of luxid may not be seen; the last state always is.
* Of many changes at once only the last state of each job is told; the more luxid has to tell, the longer it collects,
  up to a tenth of a second.
* A subscriber that names the last `position` that it has read continues there. It is told of each job that has changed
  since, maybe of some more. After a restart of luxid, or when too much has changed, it begins anew: `is_resumed` says.
* A log line is told once on a connection, in order, to those who may see the job, with a state of the job that is at
  least as new. Output is told in order, without gaps but for what was rotated away.
* Reasons are only hints, a few in a second.
* A subscriber that reads too slowly gets `streamEnded`, and its connection is closed. It resumes.

Source: DESIGN sections 6 and 15.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import attrs

from common.errors import ProtocolError
from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.jobs import LogEntry
from common.shapes import AS_IT_COMES, DocumentedAs, Lenient, Row
from common.wire import structure
from protocol.luxi.jobs import OutputStream
from protocol.messages import Request

CHANGES: Final = "changes"


class FeedTopic(enum.Enum):
    """What a subscriber wants to hear of."""

    JOBS = "jobs"
    # that the reasons why jobs wait may have changed: ask `ExplainJobs` for those that are shown
    REASONS = "reasons"
    FILTERS = "filters"
    QUEUE = "queue"


@attrs.frozen
class JobNews(Row):
    """The present state of a job."""

    job_id: JobId
    # values of the wanted fields; null: the job is archived, or there is none: `QueryJobs` tells
    values: tuple[object, ...] | None
    # log entries that the subscriber does not have
    entries: tuple[LogEntry, ...]


@attrs.frozen
class QueueState(Lenient):
    """The queue as a whole."""

    is_drained: bool = False
    # jobs with a process, also those that are being started
    running: int = 0
    max_running_jobs: int = 0
    # jobs that could run but for filters, limits and slots
    ready: int = 0
    # jobs that wait for others
    blocked: int = 0
    # jobs that are to begin later
    deferred: int = 0
    # jobs that are being changed or ended
    held: int = 0
    # why no job is started at the moment
    obstacles: tuple[str, ...] = ()


@attrs.frozen
class OutputPlace(Row):
    """A stream of a job's output, and the offset from which it is wanted."""

    job_id: JobId
    stream: OutputStream
    offset: int


@attrs.frozen
class OutputNews(Row):
    """A piece of a job's output; see `JobOutput`."""

    job_id: JobId
    stream: OutputStream
    text: str
    next_offset: int
    is_end: bool


@attrs.frozen
class FeedBegin(Lenient):
    """The reply: where the feed begins."""

    # to resume from here
    position: str
    # whether it continues from `since`: then `jobs` are those that have changed
    is_resumed: bool = False
    # rows of `JobNews`, each job once; see `job_news`
    jobs: Annotated[list[list[object]], AS_IT_COMES, DocumentedAs(tuple[JobNews, ...])] = attrs.field(factory=list)
    # in the order of the chain; null: not wanted
    filters: tuple[FilterRule, ...] | None = None
    queue: QueueState | None = None


@attrs.frozen
class FeedChanges(Lenient):
    """The parameters of a notification after its position; what did not change is left out."""

    jobs: tuple[JobNews, ...] = ()
    # whether the reasons of jobs that wait may have changed
    reasons: bool = False
    # all rules
    filters: tuple[FilterRule, ...] | None = None
    queue: QueueState | None = None
    outputs: tuple[OutputNews, ...] = ()


@attrs.frozen
class Subscribe(Request[FeedBegin]):
    """Take over the connection: the present state, and then each change.

    Jobs of others are seen as `QueryJobs` shows them, and have no log and no output.
    """

    METHOD = "Subscribe"
    topics: tuple[FeedTopic, ...]
    # jobs to hear of, also as to reasons; null: all that are not archived
    ids: tuple[JobId, ...] | None = None
    # fields of jobs as in `QueryJobs`
    fields: tuple[str, ...] = ("status",)
    # last position that the caller has read
    since: str | None = None
    # whether the present jobs are wanted if the feed does not continue from `since`
    with_snapshot: bool = True
    # for each of `ids` the serial of the last log entry that the caller has; null: no log is wanted
    log_after: tuple[int, ...] | None = None
    # output of commands that is wanted, until its end
    outputs: tuple[OutputPlace, ...] | None = None


def job_news(rows: Iterable[object]) -> Iterator[JobNews]:
    """The rows of a beginning. Raises: InvalidRequest: one has another shape."""
    return (structure(row, JobNews, "news of a job") for row in rows)


def read_changes(method: str, params: list[object]) -> tuple[str, FeedChanges] | None:
    """The position and the changes of a notification; None: only a newer luxid has this notification.

    Raises: ProtocolError, InvalidRequest: it has another shape.
    """
    if method != CHANGES:
        return None
    match params:
        case [str() as position, dict() as changes]:
            return position, structure(changes, FeedChanges, CHANGES)
        case _:
            raise ProtocolError(f"{method} came with parameters of another shape: {params!r:.200}")


# How far a subscriber has read luxid's feed, so that it can continue over a new connection.
#
# Source: DESIGN section 6.


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

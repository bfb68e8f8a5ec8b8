"""One subscriber of luxid's feed.

Source: DESIGN section 6.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

import attrs

from common.ids import JobId
from common.jsontext import ascii_json
from common.queue.jobs import LogEntry
from common.system.log import get_log
from common.wire import unstructure
from daemons.luxid.core.query.jobs import JobField, JobView, newer_entries, row_of, select_fields
from daemons.luxid.core.rights import Viewer
from daemons.luxid.jobs import JobViews
from daemons.luxid.outputs import OutputWatch
from protocol.framing import pack
from protocol.luxi.feed import CHANGES, FeedBegin, FeedTopic, OutputNews, OutputPlace
from protocol.luxi.jobs import JobOutput, OutputStream, ReadJobOutput
from protocol.serving.route import Forgets, Stream

# Messages of luxid's feed as bytes, put together from parts that are encoded once for all.
#
# Source: protocol.luxi.feed.


def changes_message(position: str, parts: Mapping[str, bytes]) -> bytes:
    """A notification with these parts of `FeedChanges`, each of them encoded, packed."""
    body = b'{"jsonrpc":"2.0","method":"%b","params":["%b",%b]}'
    return pack(body % (CHANGES.encode(), position.encode(), _object(parts)))


def begin_message(position: str, parts: Mapping[str, bytes], *, is_resumed: bool) -> bytes:
    """A `FeedBegin`, as JSON."""
    head = {"position": b'"%b"' % position.encode(), "is_resumed": b"true" if is_resumed else b"false"}
    return _object({**head, **parts})


def rows(encoded: Iterable[bytes]) -> bytes:
    """The list of rows that are encoded."""
    return b"[%b]" % b",".join(encoded)


def _object(parts: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), part) for name, part in parts.items())


# Rows of changed jobs, each made once for all subscribers who want the same of it.
#
# Source: DESIGN section 6.


_NULL: Final = b"null"
_log: Final = get_log(__name__)


@attrs.frozen(eq=False)
class JobSubscription:
    """What a subscriber wants to know of a job, and may."""

    viewer: Viewer
    names: tuple[str, ...]
    fields: Sequence[JobField]

    @classmethod
    def of(cls, viewer: Viewer, names: tuple[str, ...]) -> "JobSubscription":
        """Raises: PrerequisiteError: names all fields that are unknown."""
        return cls(viewer, names, select_fields(names))

    @property
    def kind(self) -> Hashable:
        """Equal for subscribers who get the same rows."""
        return (None if self.viewer.sees_all else self.viewer.uid, self.names)


class FollowedJobState:
    """The present state of a job.

    Args: view: None: the job is archived, or there is none.
    """

    def __init__(self, job_id: JobId, view: JobView | None) -> None:
        self.job_id = job_id
        self._view = view
        self._values: dict[tuple[tuple[str, ...], bool], bytes] = {}

    def row(self, wish: JobSubscription, entries: Iterable[LogEntry] = ()) -> bytes:
        """The row of a `JobNews`."""
        log = [[entry.serial, list(entry.at), entry.kind, entry.message] for entry in entries]
        return b"[%d,%b,%b]" % (self.job_id, self._values_for(wish), ascii_json(log) if log else b"[]")

    def entries(self, wish: JobSubscription, after: int, fresh: Iterable[LogEntry]) -> list[LogEntry]:
        """The log entries after a serial.

        Args: fresh: newer ones that the job's file may not have yet.
        """
        if self._view is None or not wish.viewer.may_see(self._view.job):
            return []
        job = self._view.job
        known = [entry for op in job.ops for entry in newer_entries(op, after)]
        first = max(job.next_log_serial, after + 1)
        return [*known, *(entry for entry in fresh if entry.serial >= first)]

    def _values_for(self, wish: JobSubscription) -> bytes:
        if self._view is None:
            return _NULL
        key = (wish.names, wish.viewer.may_see(self._view.job))
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = self._encoded(JobViews.seen_by(wish.viewer, self._view), wish)
        return values

    def _encoded(self, view: JobView, wish: JobSubscription) -> bytes:
        try:
            return ascii_json(row_of(view, wish.fields))
        except (ValueError, TypeError, RecursionError) as error:
            # a file that another program wrote may hold what cannot be sent; the query says the same
            _log.warning("feed.job_not_told", job=self.job_id, reason=error, effect="only that it has changed")
            return _NULL


# The output of commands for one subscriber: read from its files when the subscriber takes it.
#
# Source: DESIGN section 7, OP_RUN_COMMAND.


# number of pieces read at once; one has at most 1 MiB
_PIECES: Final = 8
_BYTES: Final = 2**20


class FollowedOutputs:
    """Output from some places on, each to its end. Close it.

    Args: read: carries out a call that does not wait.
    """

    def __init__(
        self, read: Callable[[ReadJobOutput], JobOutput], watch: OutputWatch, places: Iterable[OutputPlace]
    ) -> None:
        self._read = read
        self._watch = watch
        self._offsets = {(each.job_id, each.stream): each.offset for each in places}
        # streams that may have more than was read, in the order in which they are read
        self._waiting = dict.fromkeys(self._offsets)
        self._wake: Callable[[], None] = lambda: None
        self._listening = ExitStack()

    @property
    def job_ids(self) -> frozenset[JobId]:
        return frozenset(job_id for job_id, _ in self._offsets)

    @property
    def has_news(self) -> bool:
        """Whether there may be something to read."""
        return bool(self._waiting)

    def begin(self, wake: Callable[[], None]) -> None:
        """Call this whenever there may be something to read."""
        self._wake = wake
        for job_id in self.job_ids:
            self._listening.enter_context(self._watch.listen(job_id, partial(self.printed, job_id)))
        wake()

    def printed(self, job_id: JobId) -> None:
        """The job may have printed something, or has ended."""
        for stream in OutputStream:
            if (job_id, stream) in self._offsets:
                self._waiting[job_id, stream] = None
        if self._waiting:
            self._wake()

    def read(self) -> bytes:
        """The next pieces as rows of `OutputNews`; empty without any.

        Raises: Unavailable: a file cannot be read at the moment.
        """
        found: list[bytes] = []
        size = 0
        while self._waiting and len(found) < _PIECES and size < _BYTES:
            place = next(iter(self._waiting))
            if (news := self._next(*place)) is not None:
                found.append(ascii_json(unstructure(news)))
                size += len(found[-1])
        return rows(found) if found else b""

    def close(self) -> None:
        """Harmless when repeated."""
        self._listening.close()

    def _next(self, job_id: JobId, stream: OutputStream) -> OutputNews | None:
        place = (job_id, stream)
        piece = self._read(ReadJobOutput(job_id, self._offsets[place], stream=stream))
        del self._waiting[place]
        if piece.is_end:
            del self._offsets[place]
        else:
            self._offsets[place] = piece.next_offset
            if piece.text:
                # the last one: each stream gets its turn
                self._waiting[place] = None
        if not piece.text and not piece.is_end:
            return None
        return OutputNews(job_id, stream, piece.text, piece.next_offset, piece.is_end)


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
        topics: frozenset[FeedTopic],
        wish: JobSubscription,
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
        return FeedTopic.JOBS in self.topics

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

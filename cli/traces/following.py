"""Follow the jobs of a cluster, and export each one when it has ended.

Theory. luxid's feed tells which jobs have ended. They are fetched, exported, and then the place in the feed is written:
so a new process goes on where the last one was. While the collector is away nothing more is read: luxid drops the slow
reader, and the feed is taken up again at the place, or, if too much has happened since, by the history. So nothing
piles up here. A process that is killed between the reply of the collector and the write of the place exports the last
jobs again, at most `AT_ONCE`, as the same spans.

Source: `protocol.luxi.feed`; `cli.traces.place`.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final, Protocol, cast

import attrs

from cli.connection import FeedLuxid, Luxid
from cli.traces.place import ExportPlace, PlaceFile
from cli.traces.spans import FIELDS, TracedCluster, TraceSpan, job_spans
from common.errors import RemoteError, Unavailable
from common.ids import JobId
from common.queue.jobs import FINAL_NAMES
from common.words.fields import JobRow
from common.words.times import to_seconds
from protocol.luxi.feed import FeedTopic, JobNews, Subscribe, job_news, read_changes
from protocol.luxi.history import Past, ReadHistory, Sorting
from protocol.luxi.queries import QueryJobs
from protocol.luxi.why import ReadJobWaits

# jobs that are fetched and exported together
AT_ONCE: Final = 50
_PAGE: Final = 500
# seconds between two attempts, at first and at most
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_STATUS: Final = ("status",)


class NotTaken(Exception):
    """The collector did not take spans; the text says why."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(why)
        # whether it will never take them
        self.is_final = is_final


class Sink(Protocol):
    """What takes spans."""

    def take(self, spans: Sequence[TraceSpan]) -> None:
        """Raises: NotTaken."""
        ...


@attrs.frozen
class EndedJobsUpdate:
    """Jobs that have ended."""

    # where a later feed goes on after this
    position: str
    # whether what was told before may have a gap
    is_anew: bool
    ended: tuple[JobId, ...]
    # those of them that are archived: they may have ended long ago
    archived: tuple[JobId, ...] = ()


EndedFeed = Callable[[str | None], Generator[EndedJobsUpdate, None, None]]


def luxid_feed(connect: Callable[[], FeedLuxid]) -> EndedFeed:
    """The feed of luxid itself. What it raises: Unavailable, RemoteError: the connection is over."""

    def follow(position: str | None) -> Generator[EndedJobsUpdate, None, None]:
        with closing(connect()) as feed:
            begun = feed.subscribe(Subscribe((FeedTopic.JOBS,), None, _STATUS, since=position, with_snapshot=False))
            yield _ended(begun.position, job_news(begun.jobs), is_anew=not begun.is_resumed)
            while True:
                event = feed.event()
                if event is not None and (told := read_changes(*event)) is not None:
                    yield _ended(told[0], told[1].jobs, is_anew=False)

    return follow


def _ended(position: str, news: Iterable[JobNews], *, is_anew: bool) -> EndedJobsUpdate:
    ended = [each for each in news if each.values is None or each.values[0] in FINAL_NAMES]
    archived = tuple(each.job_id for each in ended if each.values is None)
    return EndedJobsUpdate(position, is_anew, tuple(each.job_id for each in ended), archived)


class TraceExport:
    """The export of the jobs of one cluster.

    Args:
        open_luxid: makes connections.
        feed: brings what luxid tells of ended jobs after a position; None: from now on.
        tell: shows a line to whoever runs it.
    """

    def __init__(
        self,
        cluster: TracedCluster,
        sink: Sink,
        file: PlaceFile,
        place: ExportPlace,
        open_luxid: Callable[[], Luxid],
        feed: EndedFeed,
        tell: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._sink = sink
        self._file = file
        self._place = place
        self._open_luxid = open_luxid
        self._feed = feed
        self._tell = tell

    def run(self) -> None:
        """Follow and export for ever; a luxid or a collector that is away is waited for.

        Raises: RemoteError: luxid refuses. OSError: the place cannot be written.
        """
        pauses = _pauses()
        while True:
            try:
                for _ in self._follow():
                    pauses = _pauses()
            except (Unavailable, RemoteError) as error:
                if isinstance(error, RemoteError) and error.code != Unavailable.code:
                    raise
                pause_s = next(pauses)
                if pause_s > _FIRST_PAUSE_S:
                    self._tell(f"luxid is away, it is tried again in {pause_s:g} s: {error.message}")
                time.sleep(pause_s)

    def _follow(self) -> Iterator[None]:
        """Export what luxid tells on one connection; yields when something was told.

        Raises: Unavailable, RemoteError: the connection is over.
        """
        with closing(self._feed(self._place.position)) as feed, self._open_luxid() as luxid:
            for news in feed:
                if news.is_anew:
                    self._catch_up(luxid)
                self._export(luxid, news.ended, news.archived)
                self._write(self._place.told(news.position, time.time()))
                yield

    def _catch_up(self, luxid: Luxid) -> None:
        """Export all jobs that have ended since the place, in the order of their ends."""
        since, offset = self._place.since, 0
        while True:
            found = luxid.call(ReadHistory(Past(since=since), Sorting.END, True, _PAGE, offset))
            if found.unread:
                # the history is complete a moment after a start of luxid
                time.sleep(_FIRST_PAUSE_S)
                continue
            self._export(luxid, [job.id for job in found.jobs])
            ends = [job.end_at for job in found.jobs if job.end_at is not None]
            if ends:
                self._write(self._place.complete_until(ends[-1]))
            if len(found.jobs) < _PAGE:
                return
            # many may have ended at one instant
            since, offset = (ends[-1], 0) if ends and ends[-1] > since else (since, offset + _PAGE)

    def _export(self, luxid: Luxid, job_ids: Sequence[JobId], archived: Collection[JobId] = ()) -> None:
        """Export these jobs, but those that have been; of archived ones that may be long ago."""
        wanted = [job_id for job_id in dict.fromkeys(job_ids) if not self._place.has(job_id)]
        for start in range(0, len(wanted), AT_ONCE):
            ids = tuple(wanted[start : start + AT_ONCE])
            rows = [
                row
                for row in _rows(luxid, ids)
                if not (row["id"] in archived and (to_seconds(row["end_ts"]) or 0.0) < self._place.since)
            ]
            if not rows:
                continue
            waits = luxid.call(ReadJobWaits(tuple(JobId(row["id"]) for row in rows)))
            self._send([job_spans(row, spans or (), self._cluster) for row, spans in zip(rows, waits, strict=True)])
            self._write(self._place.exporting({row["id"]: to_seconds(row["end_ts"]) or 0.0 for row in rows}))

    def _send(self, jobs: Sequence[Sequence[TraceSpan]]) -> None:
        """Send the spans of these jobs; those that the collector will never take are told, and left out."""
        spans = [span for job in jobs for span in job]
        if not spans:
            return
        try:
            self._send_patiently(spans)
        except NotTaken as error:
            if len(jobs) > 1:
                for job in jobs:
                    self._send([job])
                return
            self._tell(f"the collector refuses the trace of job {spans[0].attributes['gantry.job.id']}: {error}")

    def _send_patiently(self, spans: Sequence[TraceSpan]) -> None:
        """Raises: NotTaken: the collector will never take them."""
        pauses, is_away = _pauses(), False
        while True:
            try:
                self._sink.take(spans)
            except NotTaken as error:
                if error.is_final:
                    raise
                if not is_away:
                    self._tell(f"the collector takes no traces, the place is held and it is tried again: {error}")
                is_away = True
                time.sleep(next(pauses))
                continue
            if is_away:
                self._tell("the collector takes traces again")
            return

    def _write(self, place: ExportPlace) -> None:
        if place != self._place:
            self._file.write(place)
            self._place = place


def _rows(luxid: Luxid, ids: tuple[JobId, ...]) -> list[JobRow]:
    """The ended ones of these jobs that exist."""
    rows = [dict(zip(FIELDS, values, strict=True)) for values in luxid.call(QueryJobs(ids, FIELDS))]
    return [cast(JobRow, row) for row in rows if row["status"] in FINAL_NAMES]


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

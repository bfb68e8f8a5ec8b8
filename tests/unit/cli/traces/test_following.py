"""Which jobs are exported, in which order of steps, whatever luxid and the collector do."""

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import attrs
import pytest

from cli.traces.following import EndedJobsUpdate, NotTaken, TraceExport
from cli.traces.place import ExportPlace, PlaceFile
from cli.traces.spans import FIELDS, TraceSpan
from common.errors import RemoteError, Unavailable
from common.ids import JobId
from common.queue.jobs import JobState
from protocol.luxi.history import EndedJob, EndedJobs, ReadHistory
from protocol.luxi.queries import QueryJobs
from protocol.luxi.why import ReadJobWaits
from protocol.messages import Request
from tests.unit.cli.traces.rows import CLUSTER, row

R = TypeVar("R")


class FakeLuxid:
    """Knows jobs by the instants of their ends."""

    def __init__(self, ends: Mapping[int, float]) -> None:
        self.ends = ends
        # of the next questions of the history: jobs that are not in it yet
        self.unread = [0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None: ...

    def call_retrying(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        return self.call(request)

    def call(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        match request:
            case QueryJobs(job_ids=ids):
                found: Any = [self._values(job_id) for job_id in ids or ()]
            case ReadJobWaits(job_ids=ids):
                found = tuple(None for _ in ids)
            case ReadHistory():
                found = self._history(request)
            case _:
                raise AssertionError(request)
        return cast(R, found)

    def _values(self, job_id: int) -> list[object]:
        end = self.ends.get(job_id)
        if end is None:
            return [job_id if name == "id" else None for name in FIELDS]
        shown = cast(Mapping[str, object], row(id=job_id, end_ts=[int(end), 0], received_ts=[int(end) - 1, 0]))
        return [shown[name] for name in FIELDS]

    def _history(self, asked: ReadHistory) -> EndedJobs:
        assert asked.is_ascending
        since = asked.choice.since or 0.0
        ended = sorted((end, job_id) for job_id, end in self.ends.items() if end >= since)
        jobs = tuple(_ended_job(job_id, end) for end, job_id in ended[asked.offset : asked.offset + asked.limit])
        unread = self.unread.pop() if len(self.unread) > 1 else self.unread[0]
        return EndedJobs(jobs, len(ended), unread)


def _ended_job(job_id: int, end: float) -> EndedJob:
    return EndedJob(
        JobId(job_id), JobState.SUCCESS, *("", "", "", {}), *(None, None, None), end_at=end, wait_s=None, run_s=None
    )


@attrs.define
class FakeSink:
    """Takes spans, unless a plan says otherwise."""

    # errors of the next attempts, the next one last
    errors: list[NotTaken] = attrs.field(factory=list)
    # jobs that it never takes
    refused: frozenset[int] = frozenset()
    jobs: list[int] = attrs.field(factory=list)

    def take(self, spans: Sequence[TraceSpan]) -> None:
        if self.errors:
            raise self.errors.pop()
        ids = [cast(int, span.attributes["gantry.job.id"]) for span in spans if "gantry.job.id" in span.attributes]
        if self.refused & set(ids):
            raise NotTaken("too large", is_final=True)
        self.jobs += ids


class Over(RemoteError):
    """Ends the export."""


@attrs.define
class Trial:
    """An export with all that it works with."""

    luxid: FakeLuxid
    # what each feed tells; the export ends after the last one
    feeds: list[list[EndedJobsUpdate]]
    file: PlaceFile
    sink: FakeSink = attrs.field(factory=FakeSink)
    told: list[str] = attrs.field(factory=list)
    # positions from which feeds were begun
    positions: list[str | None] = attrs.field(factory=list)

    def run(self, place: ExportPlace | None = None) -> ExportPlace:
        """The place at the end."""
        begin = place or ExportPlace(CLUSTER.uuid, None, 1000.0)
        export = TraceExport(CLUSTER, self.sink, self.file, begin, lambda: self.luxid, self._feed, self.told.append)
        with pytest.raises(Over):
            export.run()
        return self.file.read() or begin

    def _feed(self, position: str | None) -> Generator[EndedJobsUpdate, None, None]:
        self.positions.append(position)
        if not self.feeds:
            raise Over("it is over", code="denied", wire_name="Denied", wire_args=[])
        yield from self.feeds.pop(0)
        raise Unavailable("the feed is over")


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, without any time."""
    pauses: list[float] = []
    monkeypatch.setattr("cli.traces.following.time.sleep", pauses.append)
    return pauses


@pytest.fixture
def file(tmp_path: Path) -> PlaceFile:
    return PlaceFile(tmp_path / "place")


def news(position: str, *ended: int, archived: Sequence[int] = (), is_anew: bool = False) -> EndedJobsUpdate:
    ids = tuple(map(JobId, (*ended, *archived)))
    return EndedJobsUpdate(position, is_anew, ids, tuple(map(JobId, archived)))


def test_a_feed_that_is_lost_goes_on_at_the_last_position(file: PlaceFile, paused: list[float]) -> None:
    trial = Trial(FakeLuxid({1: 1001, 2: 1002, 3: 1003}), [[news("a:1", 1), news("a:2", 2)], [news("a:3", 2, 3)]], file)

    place = trial.run()

    assert trial.positions == [None, "a:2", "a:3"]
    assert trial.sink.jobs == [1, 2, 3]
    assert (place.position, place.exported) == ("a:3", {1: 1001.0, 2: 1002.0, 3: 1003.0})


def test_a_gap_is_filled_from_the_history_in_parts(file: PlaceFile, paused: list[float]) -> None:
    """More jobs end at one instant than a part has."""
    ends = {job_id: 1000.0 + (0 if job_id <= 1200 else job_id) for job_id in range(1, 1801)}
    luxid = FakeLuxid({**ends, 9000: 500.0})
    luxid.unread = [0, 3]
    trial = Trial(luxid, [[news("b:1", is_anew=True), news("b:2", 1800)]], file)

    place = trial.run(ExportPlace(CLUSTER.uuid, "a:9", 1000.0, {5: 1000.0}))

    assert trial.positions[0] == "a:9"
    assert trial.sink.jobs == [job_id for job_id in range(1, 1801) if job_id != 5]
    assert place.since == 2800.0
    assert paused[0] == 0.5


def test_nothing_is_read_while_the_collector_is_away_and_the_pauses_are_bounded(
    file: PlaceFile, paused: list[float]
) -> None:
    trial = Trial(FakeLuxid({1: 1001, 2: 1002}), [[news("a:1", 1), news("a:2", 2)]], file)
    trial.sink.errors = [NotTaken("connection refused")] * 9

    trial.run()

    assert paused[:9] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert trial.sink.jobs == [1, 2]
    assert trial.told == [
        "the collector takes no traces, the place is held and it is tried again: connection refused",
        "the collector takes traces again",
    ]


def test_a_job_that_is_never_taken_is_told_and_the_others_are_sent(file: PlaceFile, paused: list[float]) -> None:
    trial = Trial(FakeLuxid({1: 1001, 2: 1002, 3: 1003}), [[news("a:1", 1, 2, 3)]], file)
    trial.sink.refused = frozenset({2})

    place = trial.run()

    assert trial.sink.jobs == [1, 3]
    assert trial.told == ["the collector refuses the trace of job 2: too large"]
    assert place.has(2)


def test_archived_jobs_are_exported_unless_they_ended_long_ago_and_unknown_ones_never(
    file: PlaceFile, paused: list[float]
) -> None:
    trial = Trial(FakeLuxid({1: 900, 2: 1002}), [[news("a:1", archived=(1, 2, 77))]], file)

    trial.run()

    assert trial.sink.jobs == [2]


def test_a_luxid_that_stays_away_is_told_and_waited_for(file: PlaceFile, paused: list[float]) -> None:
    trial = Trial(FakeLuxid({}), [[], [], [news("a:1")]], file)

    trial.run()

    assert paused[:3] == [0.5, 1.0, 0.5]
    assert trial.told == ["luxid is away, it is tried again in 1 s: the feed is over"]

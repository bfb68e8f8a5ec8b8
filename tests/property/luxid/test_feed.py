"""The feed of luxid against a naive twin: whatever happens, subscribers end with what a query would find."""

from collections.abc import Sequence
from typing import Any, Final, cast
from unittest import mock

import attrs
import orjson
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from common.access import Role
from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState, LogEntry
from common.wire import structure
from daemons.luxid import jobtable
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.queue.privacy import Viewer
from daemons.luxid.feed.beginning import begin
from daemons.luxid.feed.changedjobs import Wish
from daemons.luxid.feed.feed import Feed
from daemons.luxid.feed.stream import FeedStream
from daemons.luxid.jobtable import JobTable
from daemons.luxid.jobviews import JobViews
from daemons.luxid.livejobs import LiveJobs
from daemons.luxid.processes.jobprocesses import JobProcesses
from daemons.luxid.scheduler import Scheduler
from protocol.envelope import Call, read_message
from protocol.framing import Framer
from protocol.luxi.feed import FeedBegin, JobNews, QueueState, Subscribe, Topic, job_news, read_changes
from protocol.luxi.feedplace import FeedPlace

NOW: Final = (1, 0)
JOBS: Final = [JobId(number) for number in range(1, 6)]


class Disk:
    """As much of the store, the waits and the pauses as a scheduler needs that starts nothing."""

    def __getattr__(self, _: str) -> Any:
        return self

    def __call__(self, *_: object, **__: object) -> None:
        return None


class Logs:
    """Log lines that the files of running jobs do not have."""

    def __init__(self) -> None:
        self.lines: dict[JobId, list[LogEntry]] = {}

    def newer(self, job: Job, serial: float) -> list[LogEntry]:
        after = max(serial, job.next_log_serial - 1)
        # the real ones return a mebibyte at once
        return [line for line in self.lines.get(job.job_id, []) if line.serial > after][:2]

    def complete(self, job: Job) -> Job:
        return job


class Luxid:
    """A queue with a feed, whose jobs do what the test says."""

    def __init__(self) -> None:
        queue = JobQueue(10, 10, lambda _: None)
        self.used: set[JobId] = set()
        self.picked: set[JobId] = set()
        self.ended_on_disk: dict[JobId, Job] = {}
        self.jobs = LiveJobs(queue, JobTable(self.ended_on_disk.get), JobProcesses(cast(Any, Disk())))
        disk = cast(Any, Disk())
        self.scheduler = Scheduler(self.jobs, disk, disk, disk, disk)
        self.logs = Logs()
        self.views = JobViews(self.jobs, cast(Any, self.logs))
        self.feed = Feed(self.jobs, self.views, self.state, self.catch_up)

    def state(self) -> QueueState:
        return QueueState(running=len(self.jobs.queue.running()))

    async def catch_up(self) -> None:
        await trio.lowlevel.checkpoint()

    def go_on(self, job_id: JobId) -> None:
        """Submit the job, start it, end it, archive it: what comes next."""
        if job_id not in self.used:
            self.submit(job_id)
        elif job_id in self.jobs.queue.running():
            self.end(job_id)
        elif self.jobs.phase(job_id) is not None:
            self.start(job_id)
        else:
            self.archive(job_id)

    def submit(self, job_id: JobId) -> None:
        # an id is never used again
        if job_id not in self.used:
            self.used.add(job_id)
            self.scheduler.add([Job(job_id, (JobOp({"OP_ID": "OP_TEST_DUMMY"}),))])

    def start(self, job_id: JobId) -> None:
        self.picked |= set(self.jobs.queue.decide(0.0).start)
        if job_id in self.picked:
            self.picked.remove(job_id)
            job = self.jobs.unended(job_id)
            self.scheduler.started(attrs.evolve(job, ops=(attrs.evolve(job.ops[0], state=JobState.RUNNING),)))

    def log(self, job_id: JobId) -> None:
        if job_id in self.jobs.queue.running():
            lines = self.logs.lines.setdefault(job_id, [])
            lines.append(LogEntry(len(lines) + 1, NOW, "message", f"line {len(lines) + 1}"))
            self.jobs.news.log_grew(job_id)

    def end(self, job_id: JobId) -> None:
        if job_id in self.jobs.queue.running():
            job = self.jobs.unended(job_id)
            (op,) = job.ops
            log = tuple(self.logs.lines.get(job_id, ()))
            ended = attrs.evolve(job, ops=(attrs.evolve(op, state=JobState.SUCCESS, log=log),), end_at=NOW)
            self.ended_on_disk[job_id] = ended
            self.scheduler.ended(ended)

    def archive(self, job_id: JobId) -> None:
        if job_id in self.jobs.table and self.jobs.phase(job_id) is None:
            self.scheduler.archived([job_id])

    def query(self, job_id: JobId) -> str | None:
        """What a query finds: the naive twin."""
        job = self.jobs.table.get(job_id)
        return None if job is None else self.views.of(job).state.value


class Subscriber:
    """A client that loses its connection now and then."""

    def __init__(self, luxid: Luxid, call: Subscribe) -> None:
        self.luxid = luxid
        self.place = FeedPlace(call)
        self.known: dict[JobId, str | None] = {}
        self.log: dict[JobId, list[int]] = {}
        self.stream: FeedStream | None = None
        self.framer = Framer()

    async def connect(self) -> None:
        call = self.place.request()
        serials = None if call.log_after is None else dict(zip(call.ids or (), call.log_after, strict=True))
        wish = Wish.of(Viewer(0, Role.FULL), call.fields)
        stream = FeedStream(self.luxid.feed, frozenset(call.topics), wish, call.ids, serials, None)
        await begin(self.luxid.feed, call, stream)
        self.stream, self.framer = stream, Framer()
        begun = structure(orjson.loads(orjson.dumps(stream.first)), FeedBegin)
        if not begun.is_resumed:
            self.known.clear()
        for news in job_news(begun.jobs):
            self.take(news)
        self.place.begin(begun)

    async def read(self) -> None:
        """Take what is there."""
        with trio.move_on_after(0.01):
            while self.stream is not None:
                data, is_open = await self.stream.take()
                for payload in self.framer.feed(data):
                    message = read_message(payload)
                    assert isinstance(message, Call)
                    assert isinstance(message.params, list)
                    read = read_changes(message.method, message.params)
                    if read is not None:
                        for news in read[1].jobs:
                            self.take(news)
                        self.place.go_on(*read)
                if not is_open:
                    self.lose()

    def take(self, news: JobNews) -> None:
        self.known[news.job_id] = None if news.values is None else str(news.values[0])
        self.log.setdefault(news.job_id, []).extend(entry.serial for entry in news.entries)

    def lose(self) -> None:
        """What was not read is lost."""
        if self.stream is not None:
            self.stream.close()
            self.stream = None


# one step with a job begins or goes on with it, so that most schedules have jobs in all states
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["go_on", "log"]), st.sampled_from(JOBS)),
        st.tuples(st.sampled_from(["connect", "read", "lose", "drop"]), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.sampled_from([0, 1])),
    ),
    min_size=12,
    max_size=60,
)

FIRST: Final = JOBS[0]
# a job runs, and somebody follows its log
RUNNING: Final[list[tuple[str, Any]]] = [("go_on", FIRST), ("go_on", FIRST), ("connect", 2), ("connect", 0)]


async def play(luxid: Luxid, subscribers: Sequence[Subscriber], schedule: Sequence[tuple[str, Any]]) -> None:
    for verb, what in schedule:
        if verb == "wait":
            # 0: the other tasks run once; 1: until they have told everything
            await trio.sleep(0.5 * what)
        elif verb == "connect" and subscribers[what].stream is None:
            await subscribers[what].connect()
        elif verb == "read":
            await subscribers[what].read()
        elif verb == "lose":
            subscribers[what].lose()
        elif verb == "drop" and (stream := subscribers[what].stream) is not None:
            stream.put(b"x" * 5_000_000)
        elif hasattr(luxid, verb):
            getattr(luxid, verb)(what)


@settings(max_examples=150, deadline=None)
@given(steps)
@example([*RUNNING, ("log", FIRST), ("log", FIRST), ("log", FIRST)])
@example([*RUNNING, ("lose", 2), ("log", FIRST), ("wait", 1), ("connect", 2)])
@example([*RUNNING, ("log", FIRST), ("log", FIRST), ("go_on", FIRST)])
def test_every_subscriber_ends_with_what_a_query_finds(schedule: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        luxid = Luxid()
        named = tuple(JOBS[:3])
        subscribers = [
            Subscriber(luxid, Subscribe((Topic.JOBS,))),
            Subscriber(luxid, Subscribe((Topic.JOBS,), named)),
            Subscriber(luxid, Subscribe((Topic.JOBS,), named, log_after=(0, 0, 0))),
        ]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(luxid.feed.run)
            await play(luxid, subscribers, schedule)
            for subscriber in subscribers:
                if subscriber.stream is None:
                    await subscriber.connect()
                await trio.sleep(0.5)
                await subscriber.read()
                if subscriber.stream is None:
                    # it was too slow, and was told so
                    await subscriber.connect()
            for subscriber, wanted in zip(subscribers, (JOBS, named, named), strict=True):
                found = {job_id: luxid.query(job_id) for job_id in wanted}
                assert {job_id: subscriber.known.get(job_id) for job_id in wanted} == found
            log = subscribers[2].log
            for job_id in named:
                told = log.get(job_id, [])
                assert told == sorted(set(told))
                if job_id in luxid.jobs.table:
                    assert len(told) == len(luxid.logs.lines.get(job_id, []))
            nursery.cancel_scope.cancel()

    # a log of two lines is too long to be kept
    with mock.patch.object(jobtable, "LONG_LOG", 1):
        trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))

"""luxid's feed without processes, disk and sockets: jobs do what a test says, and subscribers come and go."""

from pathlib import Path
from typing import Any, Final, cast

import attrs
import orjson
import trio
import trio.testing

from common.access import Role
from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState, LogEntry
from common.wire import structure
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.rights import Viewer
from daemons.luxid.feed.feed import Feed, begin
from daemons.luxid.feed.stream import FeedStream, JobSubscription
from daemons.luxid.jobs import JobTable, JobViews, LiveJobs
from daemons.luxid.processes.deaths import LeftUnits
from daemons.luxid.processes.jobprocesses import JobProcesses
from daemons.luxid.scheduler import Scheduler
from protocol.envelope import Call, read_message
from protocol.framing import Framer
from protocol.luxi.feed import FeedBegin, FeedPlace, JobNews, QueueState, Subscribe, job_news, read_changes

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
        self.jobs = LiveJobs(
            queue, JobTable(self.ended_on_disk.get), JobProcesses(cast(Any, Disk()), cast(Any, Disk()))
        )
        disk = cast(Any, Disk())
        self.scheduler = Scheduler(self.jobs, disk, disk, disk, disk, LeftUnits(self.jobs, disk))
        self.logs = Logs()
        self.views = JobViews(self.jobs, cast(Any, self.logs), lambda job_id: Path("/nowhere"))
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
        wish = JobSubscription.of(Viewer(0, Role.FULL), call.fields)
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

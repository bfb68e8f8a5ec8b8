"""The feed of the fake luxid: each change of a job at once, to each subscriber who named it."""

from typing import Any, Protocol

from common.ids import JobId
from common.wire import unstructure
from protocol.luxi.feed import CHANGES, FeedBegin, Subscribe
from protocol.luxi.jobs import OutputStream
from protocol.serving.route import Publisher, Stream

FINAL = ("success", "error", "canceled")


class Job(Protocol):
    job_id: int
    status: str
    archived: bool
    log: list[list[Any]]
    output: str

    def field(self, name: str) -> Any: ...


class FakeFeed:
    """One subscription; a job that does not exist is told like one that is archived."""

    def __init__(self, call: Subscribe, jobs: dict[int, Any]) -> None:
        self._call = call
        self._jobs: dict[int, Job] = jobs
        self._serials = dict(zip(call.ids or (), call.log_after or (), strict=False))
        self._offsets = {place.job_id: place.offset for place in call.outputs or ()}
        self._publisher = Publisher()

    def begin(self) -> Stream[FeedBegin]:
        stream = self.stream = self._publisher.subscribe(
            FeedBegin("fake:1", jobs=[self._row(each) for each in self._call.ids or ()])
        )
        for job_id in self._call.ids or ():
            self._publisher.publish(CHANGES, "fake:1", {"outputs": self._outputs(job_id)})
        return stream

    def tell(self, job_id: int) -> None:
        if job_id in (self._call.ids or ()):
            outputs = self._outputs(job_id)
            self._publisher.publish(CHANGES, "fake:2", {"jobs": [self._row(JobId(job_id))], "outputs": outputs})

    def hint(self) -> None:
        self._publisher.publish(CHANGES, "fake:2", {"reasons": True})

    def _row(self, job_id: JobId) -> list[Any]:
        job = self._jobs.get(job_id)
        if job is None or job.archived:
            return [job_id, None, []]
        entries = [entry for entry in job.log if entry[0] > self._serials.get(job_id, 1 << 60)]
        if entries:
            self._serials[job_id] = entries[-1][0]
        return [job_id, [unstructure(job.field(name)) for name in self._call.fields], entries]

    def _outputs(self, job_id: int) -> list[Any]:
        job = self._jobs.get(job_id)
        if job is None or job_id not in self._offsets:
            return []
        offset, self._offsets[JobId(job_id)] = self._offsets[JobId(job_id)], len(job.output)
        rows = [[job_id, "output", job.output[offset:], len(job.output), False]] if job.output[offset:] else []
        if job.status in FINAL:
            del self._offsets[JobId(job_id)]
            rows += [[job_id, stream.value, "", len(job.output), True] for stream in OutputStream]
        return rows

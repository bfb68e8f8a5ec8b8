"""Each try of jobs that were tried again, from the jobs' files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cli.luxid import Luxid
from cli.query import query_jobs
from cli.tables import Layout
from common.ids import JobId
from common.printable import printable
from common.queue.jobs import JobOp
from common.queue.tries import Try, tries_of
from common.words.times import clock, duration
from protocol.luxi.history import EndedJob

Tries = Mapping[JobId, Sequence[Mapping[str, object]]]


def tries_of_jobs(client: Luxid, jobs: Iterable[EndedJob]) -> Tries:
    """The failed tries of these jobs but the last one, which is the job's own; a removed job has none any more."""
    wanted = [job.id for job in jobs if job.tries > 1]
    rows = query_jobs(client, wanted, ("id", "status", "ops")) if wanted else []
    return {
        JobId(row["id"]): [_as_json(each) for op in row["ops"] for each in tries_of(JobOp(op))]
        for row in rows
        if row["status"] is not None
    }


def try_lines(lines: Iterable[str], jobs: Sequence[EndedJob], tries: Tries, layout: Layout) -> Iterator[str]:
    """The lines of a table, and below each job its tries."""
    left = iter(lines)
    if layout.has_header:
        yield next(left)
    for job, line in zip(jobs, left, strict=True):
        yield line
        for each in tries.get(job.id, ()):
            yield printable(f"    try {each['number']}: {each['text']}")


def _as_json(each: Try) -> dict[str, object]:
    text = f"{clock(each.start_at)}, {duration(each.end_at - each.start_at)}, {each.why}"
    return {
        "number": each.number,
        "start_at": each.start_at,
        "end_at": each.end_at,
        "why": each.why,
        "exit_code": each.exit_code,
        "text": text,
    }

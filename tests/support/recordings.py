"""Conversations with a real luxid, and the jobs that they tell of."""

import json
from collections.abc import Iterator
from typing import Any

from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState, LogEntry
from tests.support.configs import RECORDED

ALL_JOBS = "QueryJobs/all-jobs-all-fields"


def recorded_exchanges(name: str) -> list[dict[str, Any]]:
    """The exchanges of a recording, in their order."""
    return [json.loads(line) for line in (RECORDED / name).read_text().splitlines()]


def recorded_jobs() -> Iterator[Job]:
    """The jobs of the recorded cluster, as it answered with them."""
    exchange = next(each for each in recorded_exchanges("luxi-queries.jsonl") if each["name"] == ALL_JOBS)
    fields = json.loads(exchange["req"])["args"][1]
    for row in json.loads(exchange["resp"])["result"]:
        yield job_of(dict(zip(fields, row, strict=True)))


def job_of(row: dict[str, Any]) -> Job:
    """The job that these fields of a query tell."""
    columns = ("ops", "opstatus", "opresult", "oplog", "oppriority", "opstart", "opexec", "opend")
    ops = [
        JobOp(
            given,
            state=JobState(state),
            result=result,
            log=tuple(LogEntry(serial, tuple(at), kind, message) for serial, at, kind, message in log),
            priority=priority,
            start_at=start and tuple(start),
            exec_at=executed and tuple(executed),
            end_at=end and tuple(end),
        )
        for given, state, result, log, priority, start, executed, end in zip(
            *(row[name] for name in columns), strict=True
        )
    ]
    received, started, ended = (row[name] and tuple(row[name]) for name in ("received_ts", "start_ts", "end_ts"))
    return Job(JobId(row["id"]), tuple(ops), received, started, ended)

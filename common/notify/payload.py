"""What is told of an event: ids, name, labels, state, exit code and times; never output, arguments or environment.

    {"id":"3f0a…-17-error-operators","event":"error","job":17,"name":"backup-web1","labels":{"team":"web"},…}

Instants are ISO 8601 in UTC. The text is the same each time that it is made of the same job.

Source: DESIGN section 16; everyday.md section h.
"""

import datetime
from collections.abc import Mapping

import attrs
import orjson

from common.ids import JobId
from common.notify.matching import Subject
from common.queue.jobs import Job, Timestamp, to_seconds
from common.queue.tries import tries_of


@attrs.frozen
class BatchEnd:
    """A batch of which all jobs have ended."""

    batch_id: str
    # final state -> number of jobs
    counts: Mapping[str, int]
    # second in which its jobs were received: clients choose ids, and may use one again; 0: unknown
    received_s: int = 0
    # its jobs that ended before the last one; they stay live until the event is told, since it counts them
    earlier: frozenset[JobId] = frozenset()

    @property
    def state(self) -> str:
        """Failed if any job failed, canceled if any was canceled."""
        return next((state for state in ("error", "canceled") if self.counts.get(state)), "success")

    @property
    def key(self) -> str:
        """What tells the batch from all others: `batch-5f2c-1790000000`."""
        return f"batch-{self.batch_id}" + (f"-{self.received_s}" if self.received_s else "")


@attrs.frozen
class Place:
    """Where the job is."""

    cluster: str
    cluster_uuid: str
    # beginning of addresses at which people look at a job; "": there are none
    job_url: str = ""


@attrs.frozen
class Event:
    """Something to be told of a job, to whom one rule names."""

    rule: str
    # a final state, `try`, or `recovered`
    kind: str
    # None: it is of the job alone
    batch: BatchEnd | None = None
    # number of the failed try; 0: it is of no try
    number: int = 0

    def key(self, job_id: int) -> str:
        """What tells this event of the job from all others; also the key of its submission."""
        about = str(job_id) if self.batch is None else self.batch.key
        return f"notify/{about}/{self.kind}{self.number or ''}/{self.rule}"


def payload(event: Event, subject: Subject, place: Place) -> str:
    """The text that is sent."""
    job, terms = subject.job, subject.terms
    told: dict[str, object] = {
        "id": message_id(event, job, place),
        "event": event.kind,
        "cluster": place.cluster,
        "job": job.job_id,
        "name": terms.name,
        "labels": dict(terms.labels),
        "user": subject.user,
        "status": job.state.value,
        "exit_code": _exit_code(job),
        "received": _instant(job.received_at),
        "started": _instant(job.start_at),
        "ended": _instant(job.end_at),
        "rule": event.rule,
    }
    if event.number:
        told["try"] = event.number
    if event.batch is not None:
        told |= {"batch": event.batch.batch_id, "status": event.batch.state, "jobs": dict(event.batch.counts)}
    if place.job_url:
        told["url"] = f"{place.job_url}{job.job_id}"
    return orjson.dumps(told).decode()


def message_id(event: Event, job: Job, place: Place) -> str:
    """The id that receivers know a repeated delivery by."""
    return "-".join([place.cluster_uuid, *event.key(job.job_id).split("/")[1:]])


def _exit_code(job: Job) -> int | None:
    """That of the last command which has ended."""
    for op in reversed(job.ops):
        end: object = op.result
        match end:
            # a failure: its class, then its arguments
            case [str(), [str(), {"exit_code": int(code)}]] | {"exit_code": int(code)}:
                return code
            case _:
                if tried := tries_of(op):
                    return tried[-1].exit_code
    return None


def _instant(at: Timestamp | None) -> str | None:
    if at is None:
        return None
    return datetime.datetime.fromtimestamp(to_seconds(at), datetime.UTC).isoformat(timespec="milliseconds")

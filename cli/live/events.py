"""Events of jobs, and what brings them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

import attrs

from cli.luxid import Luxid
from common.errors import JobLost, Unavailable
from common.ids import JobId
from common.queue.jobs import FINAL_NAMES, LogEntry, to_seconds
from common.wire import structure
from common.words.fields import Row
from common.words.loglines import LogLine
from common.words.outcome import no_such_job
from protocol.luxi.output import OutputStream
from protocol.luxi.queries import QueryJobs


@attrs.frozen
class Change:
    """A new state of a job, and its log entries since the last one."""

    job_id: int
    status: str
    values: Row
    log: tuple[LogLine, ...]

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_NAMES


@attrs.frozen
class Output:
    """A piece of the output of a job's commands."""

    job_id: int
    text: str
    stream: OutputStream


Event = Change | Output


class Follower(Protocol):
    """Brings the events of jobs, in the order of their arrival, until all have ended and everything was told."""

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event; None if none came within `timeout_s` seconds, or none will come any more.

        Raises: JobLost: a job does not exist. RemoteError, Unavailable: as `BlockingClient.call`; a restart of luxid
            is waited for.
        """
        ...

    @property
    def is_done(self) -> bool:
        """All jobs have ended and everything has been told."""
        ...

    def __iter__(self) -> Iterator[Event]: ...

    def close(self) -> None:
        """Follow no longer."""
        ...


def change_of(job_id: int, fields: Sequence[str], values: Sequence[object], entries: Iterable[LogEntry]) -> Change:
    """The change that luxid tells.

    Args: fields: names of the values; `status` comes first.
    Raises: Unavailable: it does not know the job's state.
    """
    status = values[0] if values else None
    if not isinstance(status, str):
        raise Unavailable(f"luxid cannot tell the state of job {job_id}; its log says why")
    log = tuple(LogLine(each.serial, to_seconds(each.at), each.kind, each.message) for each in entries)
    return Change(job_id, status, cast(Row, dict(zip(fields, values, strict=True))), log)


def read_job(client: Luxid, job_id: int, fields: Sequence[str], after: int = 0) -> Change:
    """The present state of a job, as of one that is archived, and its log entries after a serial.

    Raises: JobLost: there is no such job. Else as `BlockingClient.call`.
    """
    values = client.call(QueryJobs((JobId(job_id),), (*fields, "oplog")))[0]
    if values[0] is None:
        raise JobLost(no_such_job(job_id))
    logs = structure(values[-1], tuple[tuple[LogEntry, ...], ...], "log")
    return change_of(job_id, fields, values[:-1], (entry for log in logs for entry in log if entry.serial > after))

"""Waiting for changes of one job.

Source: luxid.md section 2.
"""

import attrs

from common.ids import JobId
from common.queue.jobs import LogEntry
from common.shapes import Row
from protocol.luxi.queries import FieldValue
from protocol.messages import Request


@attrs.frozen
class JobChange(Row):
    """A job as it is now: `[values, log entries]`."""

    # null in each place: luxid cannot tell them
    values: tuple[FieldValue, ...]
    # lines of the log that the caller does not have
    entries: tuple[LogEntry, ...]


@attrs.frozen
class WaitForJobChange(Request[JobChange]):
    """Wait until the fields or the log of a job differ from what the caller knows.

    At the time-out the values are told as they are, and no entries.
    """

    METHOD = "WaitForJobChange"
    job_id: JobId
    fields: tuple[str, ...]
    # values that the caller has, or null: answer at once
    previous: object
    # last log serial that the caller has; null: all
    previous_serial: object
    # seconds, capped at 89
    timeout: float

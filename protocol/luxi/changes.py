"""Wait for changes of one job.

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
    """The present state of a job: `[values, log entries]`."""

    # values of the fields; all null: luxid cannot tell them
    values: tuple[FieldValue, ...]
    # log entries that the caller does not have
    entries: tuple[LogEntry, ...]


@attrs.frozen
class WaitForJobChange(Request[JobChange]):
    """Wait until the fields or the log of a job differ from what the caller knows.

    At the time-out the reply has the present values, and no entries.
    """

    METHOD = "WaitForJobChange"
    job_id: JobId
    fields: tuple[str, ...]
    # values that the caller has; null: reply at once
    previous: object
    # last log serial that the caller has; null: none
    previous_serial: object
    # seconds, capped at 89
    timeout: float

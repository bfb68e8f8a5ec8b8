"""Waiting for changes of one job.

Source: luxid.md section 2.
"""

from typing import Any

import attrs

from common.ids import JobId
from protocol.messages import Request


@attrs.frozen
class WaitForJobChange(Request[Any]):
    """Wait until the fields or the log of a job differ from what the caller knows.

    Answers `[values, log entries]`; at the time-out the values as they are and no entries.
    """

    METHOD = "WaitForJobChange"
    job_id: JobId
    fields: tuple[str, ...]
    # values the caller has, or null: answer at once
    previous: Any
    # last log serial the caller has; null: all
    previous_serial: Any
    # seconds, capped at 89
    timeout: float

"""What the commands of a job print.

Source: luxid.md section 2.
"""

import enum

import attrs

from common.ids import JobId
from protocol.messages import Request


@attrs.frozen
class JobOutput:
    """A piece of what a job's commands printed."""

    # bytes, decoded as UTF-8 with replacements
    text: str
    # where to go on reading; more than the asked offset when output was rotated away
    next_offset: int
    # no more will come: the job is final and everything has been read
    is_end: bool


class OutputStream(enum.Enum):
    """Which of the streams that the commands of a job print to."""

    # standard output; and standard error, unless the command has it apart
    OUTPUT = "output"
    ERROR = "error"


@attrs.frozen
class ReadJobOutput(Request[JobOutput]):
    """Read a job's output from a byte offset on; waits up to `timeout` s if there is nothing new yet."""

    METHOD = "ReadJobOutput"
    job_id: JobId
    offset: int = 0
    timeout: float = 0.0
    # null: the output
    stream: OutputStream | None = None

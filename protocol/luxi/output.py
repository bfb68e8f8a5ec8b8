"""The output of a job's commands.

Source: luxid.md section 2.
"""

import enum

import attrs

from common.ids import JobId
from protocol.messages import Request


@attrs.frozen
class JobOutput:
    """A piece of the output of a job's commands."""

    # decoded as UTF-8 with replacements; or one character for each byte
    text: str
    # offset of the next read; more than offset + size when older output was rotated away
    next_offset: int
    # whether no more will come: the job is final and everything has been read
    is_end: bool


class OutputStream(enum.Enum):
    """A stream to which the commands of a job print."""

    # standard output, and standard error unless the command keeps it apart
    OUTPUT = "output"
    ERROR = "error"


@attrs.frozen
class ReadJobOutput(Request[JobOutput]):
    """Read a job's output from a byte offset on; waits up to `timeout` s for new output."""

    METHOD = "ReadJobOutput"
    job_id: JobId
    offset: int = 0
    timeout: float = 0.0
    # null: standard output
    stream: OutputStream | None = None
    # whether each byte is wanted as one character (Latin-1); null: no
    as_bytes: bool | None = None
    # number of a try, from 1, of which alone the output is wanted; offsets are those of the whole stream. Null: all
    of_try: int | None = None

"""One line of a job's log, and its text."""

import time
from typing import Final

import attrs

from common.printable import printable
from common.words.text import json_text

_PLAIN: Final = "message"


@attrs.frozen
class LogLine:
    """One message in a job's log."""

    serial: int
    # seconds since the epoch
    at: float
    kind: str
    message: object


def log_text(line: LogLine) -> str:
    """A log entry in the form of cli.md 1.2: local time, blank, message."""
    return f"{time.ctime(line.at)} {message_text(line)}"


def message_text(line: LogLine) -> str:
    """The message; special kinds as JSON."""
    if line.kind == _PLAIN and isinstance(line.message, str):
        return printable(line.message)
    return json_text([line.kind, line.message])

"""Follow a job that stops at each step until a client has connected to its socket.

Source: opcodes.md 7, TEST_JQUEUE.
"""

import socket
from typing import Final

import attrs

from cli.live.follow import job_changes
from cli.luxid import Luxid
from cli.query import query_jobs
from common.errors import ProtocolError
from common.words.loglines import LogLine

# the kind of log entry that names a socket
_KIND: Final = "jqueue-test"
# seconds for the connection; the job waits longer than that
_CONNECT_S: Final = 20.0


@attrs.frozen
class JobSeen:
    """What a witness has seen of a job."""

    job_id: int
    # plain messages of its log, in order
    messages: tuple[str, ...]
    # (step, its argument, the job's state in it), in order
    steps: tuple[tuple[str, object, str | None], ...]
    # final states of the opcodes
    statuses: tuple[str, ...]


def witness(client: Luxid, job_id: int) -> JobSeen:
    """Follow a job to its end, and connect to each socket that its log names.

    Raises: OSError: a socket cannot be reached. ProtocolError: a log entry names no socket. Else as `job_changes`.
    """
    messages: list[str] = []
    steps: list[tuple[str, object, str | None]] = []
    for change in job_changes(client, job_id, ("status",)):
        for line in change.log:
            if line.kind == _KIND:
                steps.append(_visit(client, job_id, line))
            elif line.kind == "message":
                messages.append(str(line.message))
    row = query_jobs(client, [job_id], ("opstatus",))[0]
    return JobSeen(job_id, tuple(messages), tuple(steps), tuple(row["opstatus"]))


def _visit(client: Luxid, job_id: int, line: LogLine) -> tuple[str, object, str | None]:
    """Return the step, and the job's state during it; the job goes on when the connection closes."""
    path, step, argument = _parts(line.message)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(_CONNECT_S)
        sock.connect(path)
        status = query_jobs(client, [job_id], ("status",))[0]["status"]
    return step, argument, status


def _parts(message: object) -> tuple[str, str, object]:
    match message:
        case [str() as path, str() as step, argument]:
            return path, step, argument
        case _:
            raise ProtocolError(f"expected [socket, step, argument] in the log, got {message!r:.100}")

"""The children of the fork server, played without a fork (DESIGN section 7)."""

import errno
import os
import socket

import pytest

from common.ids import JobId
from daemons.jobproc.forkserver.server import Children, ForkServer
from protocol.forkserver import REFUSAL
from protocol.framing import pack


class Ended(BaseException):
    """What `os._exit` does to a child."""


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (OSError(errno.ENFILE, os.strerror(errno.ENFILE)), b"too many open files in system"),
        (MemoryError(), b"out of memory"),
    ],
)
def test_child_that_cannot_begin_says_why_so_that_it_is_no_try_of_its_job(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception, reason: bytes
) -> None:
    codes = []

    def end(code: int) -> None:
        codes.append(code)
        raise Ended

    def live(job_id: JobId, sock: socket.socket) -> int:
        raise trouble

    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(os, "_exit", end)
    ours, theirs = socket.socketpair()

    with ours, theirs:
        with pytest.raises(Ended):
            Children({}).start(JobId(1), theirs, live)
        theirs.close()

        assert ours.recv(4096) == pack(REFUSAL + reason)
    assert codes == [1]


def test_a_fork_that_the_kernel_refuses_is_told_to_who_has_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    server = object.__new__(ForkServer)
    server._children, server._postponed = Children({}), {}
    ours, theirs = socket.socketpair()

    with ours:
        server._start(JobId(1), theirs)

        text = b"no process for job 1: resource temporarily unavailable; try again later"
        assert ours.recv(4096) == pack(REFUSAL + text)
        assert ours.recv(1) == b""

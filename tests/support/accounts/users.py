"""Other users of the machine, for tests that run as root: what they get when they call a daemon.

answer = call_as("nobody", cluster, QueryJobs((), ("id",)))
"""

import os
import pickle
import pwd
from typing import Any, Final

import pytest

from common.errors import RemoteError
from protocol.blocking import BlockingClient
from protocol.messages import Request
from protocol.peer import Speaker
from tests.support.cluster import Cluster

# logins that each system has; what they are allowed is the test's business
ALICE, BOB, READER, OPERATOR, ADMIN, GATEWAY = "games", "man", "nobody", "mail", "bin", "news"
# the user that runs the tests; without root no job can be another user's
OWN_LOGIN: Final = pwd.getpwuid(os.getuid()).pw_name
needs_root: Final = pytest.mark.skipif(os.getuid() != 0, reason="only root can become other users")


class Refused(Exception):
    """The daemon answered with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def uid_of(login: str) -> int:
    return pwd.getpwnam(login).pw_uid


def call_as(login: str | int, cluster: Cluster, *calls: Request[Any], speaker: Speaker | None = None) -> Any:
    """The answer to the last of these calls, made by a process of this user.

    Args:
        login: or the number of a user who has none.
        speaker: user in whose name the process calls.
    Raises: Refused: a call is answered by an error.
    """
    reading_end, writing_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer: Any = _call(login, cluster, calls, speaker)
        except RemoteError as error:
            answer = Refused(error.code, error.message)
        except BaseException as error:
            answer = AssertionError(repr(error))
        with os.fdopen(writing_end, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing_end)
    with os.fdopen(reading_end, "rb") as pipe:
        answer = pickle.load(pipe)
    os.waitpid(pid, 0)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _call(login: str | int, cluster: Cluster, calls: tuple[Request[Any], ...], speaker: Speaker | None) -> Any:
    # the folders above are root's alone
    os.chdir(cluster.paths.sockets)
    uid, gid, groups = _account(login)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    answer = None
    with BlockingClient(cluster.paths.query_socket.relative_to(cluster.paths.sockets)) as client:
        for call in calls:
            answer = client.call(call, speaker=speaker)
    return answer


def _account(login: str | int) -> tuple[int, int, list[int]]:
    if isinstance(login, int):
        return login, login, []
    found = pwd.getpwnam(login)
    return found.pw_uid, found.pw_gid, os.getgrouplist(login, found.pw_gid)

"""SubmitJobToDrainedQueue: for root, the daemon's own user, and users that the settings name (luxid.md 2.2)."""

import os

import pytest

from common.errors import RemoteError
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import SubmitJobToDrainedQueue
from protocol.luxi.queue import SetDrainFlag
from tests.daemon.luxid.ops import dummy
from tests.support.cluster import Cluster

NAMED_USER, NAMED_GROUP, NOBODY = 65533, 65532, 65534
TAKEN, DENIED = 10, 11

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs other users")


def submit_as(cluster: Cluster, uid: int, gid: int) -> int:
    """Submit in a process of this user; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # the folders above are root's alone
            os.chdir(cluster.paths.sockets)
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            with BlockingClient(cluster.paths.query_socket.relative_to(cluster.paths.sockets)) as client:
                client.call(SubmitJobToDrainedQueue((dummy(),)))
                code = TAKEN
        except RemoteError as error:
            code = DENIED if error.code == "denied" else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    ("uid", "gid", "outcome"),
    [(NAMED_USER, NOBODY, TAKEN), (NOBODY, NAMED_GROUP, DENIED), (0, 0, TAKEN)],
)
def test_who_may_connect_may_not_always_pass_the_drain(idle: Cluster, uid: int, gid: int, outcome: int) -> None:
    idle.configure(f"[access]\nuids = [{NAMED_USER}]\ngids = [{NAMED_GROUP}]\nsocket_mode = 0o666\n")
    idle.paths.sockets.chmod(0o711)
    idle.start("luxid")
    idle.luxi(SetDrainFlag(True))

    assert submit_as(idle, uid, gid) == outcome
    assert idle.paths.job_file(1).exists() is (outcome == TAKEN)

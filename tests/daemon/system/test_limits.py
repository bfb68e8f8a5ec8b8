"""The bounds of '[limits]' are in force in real daemons (DESIGN section 4; issue 9, 1.1 and 3.6)."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from common.errors import RemoteError
from common.ids import JobId
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.system.livelock import Livelock
from protocol.luxi.queries import QueryJobs
from protocol.wconfd.locks import TryUpdateLocks
from tests.cli.command import run
from tests.support.cluster import Cluster
from tests.support.sockets.rawsocket import RawCaller
from tests.support.wait import wait_until

SETTINGS = """[limits]
max_connections = 8
reserved_connections = 0
max_job_opcodes = 3
max_locks = 5
max_items = 50
"""
DUMMY = {"OP_ID": "OP_TEST_DUMMY"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("limits") / "root", settings=SETTINGS) as cluster:
        cluster.start()
        yield cluster


def test_a_connection_too_many_is_refused_and_one_that_ends_makes_room(cluster: Cluster) -> None:
    hello = orjson.dumps({"method": "QueryJobs", "args": [[], ["id"]]})
    with ExitStack() as stack:
        callers = [stack.enter_context(RawCaller(cluster.paths.query_socket)) for _ in range(12)]
        answers = [orjson.loads(caller.ask(hello) or b"null") for caller in callers]

        refused = [answer for answer in answers if not answer["success"]]
        # daemons may have some of the eight at this moment
        assert 4 <= len(refused) <= 8
        assert {answer["error"]["kind"] for answer in refused} == {"too_busy"}
        assert "of at most 8 for user" in refused[0]["result"][1][0]
        ended = run("gnt-job", "--root", cluster.root, "list")
        assert "of at most 8 for user" in ended.err
        assert ended.code == 1

    wait_until(lambda: run("gnt-job", "--root", cluster.root, "list").code == 0, what="there is room again")


def test_jobs_and_calls_beyond_their_bounds_are_refused_with_the_numbers(cluster: Cluster) -> None:
    with pytest.raises(RemoteError, match="the job has 4 opcodes, of at most 3; split it, or raise 'max_job_opcodes'"):
        cluster.submit(*[DUMMY] * 4)
    with pytest.raises(RemoteError, match="an argument of QueryJobs has 51 items, of at most 50; call several times"):
        cluster.luxi(QueryJobs(tuple(map(JobId, range(51))), ("id",)))
    assert cluster.wait(cluster.submit(*[DUMMY] * 3)) == ["success"]


def test_a_request_for_too_many_locks_is_refused_and_changes_nothing(cluster: Cluster) -> None:
    livelock = Livelock.create(Path(cluster.paths.livelocks), "tester")
    owner = Owner("tester", str(livelock.path))
    wanted = tuple(LockRequest(parse_lock(f"node/n{number}"), LockMode.SHARED) for number in range(6))

    with pytest.raises(RemoteError, match="an argument of tryUpdateLocks has 6 items, of at most 5; call several"):
        cluster.wconf(TryUpdateLocks(owner, wanted))
    assert cluster.wconf(TryUpdateLocks(owner, wanted[:5])) == ()
    livelock.remove()

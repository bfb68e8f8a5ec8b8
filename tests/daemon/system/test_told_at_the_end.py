"""At a clean stop each daemon tells what it has written, and how many deaths only a sweep has found."""

import re
import signal
from pathlib import Path

from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.system.livelock import Livelock
from protocol.wconfd.locks import TryUpdateLocks
from tests.support.cluster import Cluster


def test_wconfd_tells_how_many_changes_shared_how_many_writes(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start("wconfd")
        livelock = Livelock.create(cluster.paths.livelocks, "job_1")
        for name in ("node/a", "node/b"):
            request = LockRequest(parse_lock(name), LockMode.SHARED)
            assert cluster.wconf(TryUpdateLocks(Owner("tester", livelock.path), (request,))) == ()

        cluster.kill("wconfd", signal.SIGTERM)
        livelock.remove()

        log = cluster.log("wconfd")
        (locks,) = re.findall(r"file\.served file=locks\.data steps=(\d+) writes=(\d+) failures=(\d+)", log)
        assert (int(locks[0]) >= 2, int(locks[1]) >= 2, locks[2]) == (True, True, "0")
        assert "file.served file=config.data " in log
        assert "file.served file=tempres.data " in log
        assert "deaths.served swept=0" in log


def test_luxid_tells_how_many_commits_shared_how_many_groups(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start("wconfd", "luxid")
        cluster.submit({"OP_ID": "OP_TEST_DUMMY", "result": None, "messages": "x", "fail": False})

        cluster.kill("luxid", signal.SIGTERM)

        log = cluster.log("luxid")
        (served,) = re.findall(r"queue\.served commits=(\d+) failures=(\d+) groups=(\d+) files=(\d+)", log)
        assert [int(served[0]) >= 1, served[1], int(served[3]) >= 2] == [True, "0", True]
        assert "deaths.served swept=0" in log

"""Clients that wait and vanish leave nothing behind (issue 12; the whole crowd is in `tests/bench/http.py`)."""

import os
from pathlib import Path

from protocol.luxi.daemon import ReadMetrics
from protocol.luxi.queue import ReplaceFilter
from tests.daemon.luxid.ops import dummy
from tests.support.wait import wait_until
from tests.support.web.rapid import Web
from tests.support.web.webcrowd import Crowd, load

COUNT = 50
QUIET = {"requests": 0, "waiting": 0, "calls": 0}


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_nothing_is_left_of_a_crowd_that_vanishes_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    with Web(tmp_path) as web, Crowd(web) as crowd:
        web.start()
        web.cluster.luxi(ReplaceFilter(None, 0, (), "PAUSE", ()))
        job_ids = web.cluster.submit_many(*((dummy(),) for _ in range(COUNT)))
        web.local.get("/3/jobs").raise_for_status()
        # some connections to luxid are kept for later calls, so they are compared with many
        rapids, luxids = descriptors(web.pid), web.cluster.luxi(ReadMetrics()).number("connections")

        crowd.wait_for(job_ids)
        crowd.listen(COUNT)
        crowd.settle()

        assert descriptors(web.pid) >= rapids + 2 * COUNT
        assert web.cluster.luxi(ReadMetrics()).number("connections") >= luxids + COUNT - 1
        assert len(web.local.get(f"/3/jobs?limit={COUNT}").json()["jobs"]) == COUNT

        crowd.vanish()

        wait_until(lambda: load(web) == QUIET, what="nobody waits", state=lambda: load(web))
        # those of the crowd, and the calls that were cancelled with it
        wait_until(lambda: descriptors(web.pid) < rapids + COUNT, what="connections are closed")
        wait_until(
            lambda: web.cluster.luxi(ReadMetrics()).number("connections") < luxids + COUNT // 2,
            what="luxid has forgotten the waits",
        )
        assert web.local.get(f"/3/jobs/{job_ids[0]}").json()["status"] == "queued"
        assert "Traceback" not in web.log()

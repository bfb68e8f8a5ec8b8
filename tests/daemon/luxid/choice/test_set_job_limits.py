"""The limit of running jobs is the cluster's: in force at once, followed, and kept (DESIGN section 11)."""

from typing import Any

import pytest

from common.errors import RemoteError
from protocol.luxi.queries import QueryClusterInfo
from protocol.luxi.queue import SetJobLimits
from protocol.wconfd.changes import UpdateCluster
from protocol.wconfd.config import ReadConfig
from tests.daemon.luxid.ops import delay
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def running(cluster: Cluster, jobs: list[Any]) -> int:
    return [cluster.status(job_id) for job_id in jobs].count("running")


def limits(cluster: Cluster) -> tuple[int, int]:
    info = cluster.luxi_wire(QueryClusterInfo())
    return info["max_running_jobs"], info["max_tracked_jobs"]


def test_a_new_limit_is_in_force_at_once_and_after_a_restart(cluster: Cluster) -> None:
    assert limits(cluster)[0] == 4, "the setting gave the first value"
    jobs = cluster.submit_many(*[(delay(60),)] * 6)
    wait_until(lambda: running(cluster, jobs) == 4, what="four jobs run")

    assert cluster.luxi(SetJobLimits(5, 30)) is True

    assert limits(cluster) == (5, 30)
    wait_until(lambda: running(cluster, jobs) == 5, what="a fifth one runs")
    cluster.restart("luxid")
    cluster.luxi(SetJobLimits(6))
    wait_until(lambda: running(cluster, jobs) == 6, what="all run")
    assert limits(cluster) == (6, 30)


def test_a_limit_that_somebody_else_changes_in_wconfd_is_followed(cluster: Cluster) -> None:
    jobs = cluster.submit_many(*[(delay(60),)] * 5)
    wait_until(lambda: running(cluster, jobs) == 4, what="four jobs run")
    changed = {**cluster.wconf_wire(ReadConfig())["cluster"], "max_running_jobs": 5}

    assert cluster.wconf(UpdateCluster(changed)) is not None

    wait_until(lambda: running(cluster, jobs) == 5, what="the fifth one runs")


@pytest.mark.parametrize(("wanted", "text"), [((0, None), "max_running_jobs must be"), ((None, -1), "got -1")])
def test_a_limit_below_one_is_refused(cluster: Cluster, wanted: tuple[int | None, int | None], text: str) -> None:
    with pytest.raises(RemoteError, match=text):
        cluster.luxi(SetJobLimits(*wanted))

    assert limits(cluster) == (4, 75)

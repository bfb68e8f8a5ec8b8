"""luxid's copy of the configuration (luxid.md 1.6, last line; 2.2)."""

import os
from typing import Any

import pytest

from common.errors import RemoteError
from common.ids import JobId
from common.locks import Owner
from common.objects.kinds import TagKind
from common.system.livelock import Livelock
from protocol.luxi.jobs import SubmitJob
from protocol.luxi.queries import QueryConfigValues, QueryTags, WaitForJobChange
from protocol.messages import Request
from protocol.wconfd.config import LockConfig, WriteConfigAndUnlock
from tests.daemon.luxid.ops import dummy
from tests.support.cluster import Cluster


def write_tags(cluster: Cluster, *tags: str) -> None:
    """Give the cluster other tags, as a client of wconfd does."""
    livelock = Livelock.create(cluster.paths.livelocks, "writer")
    owner = Owner("writer", livelock.path)
    try:
        config: Any = cluster.wconf(LockConfig(owner, shared=False))
        config["cluster"]["tags"] = sorted(tags)
        assert cluster.wconf(WriteConfigAndUnlock(owner, config))
    finally:
        livelock.remove()


def age(cluster: Cluster) -> None:
    """Make the last write of the configuration an old one."""
    os.utime(cluster.paths.config_data, (1_000_000_000, 1_000_000_000))


def tags(cluster: Cluster) -> tuple[str, ...]:
    return cluster.luxi(QueryTags(TagKind.CLUSTER, ""))


def test_a_change_is_seen_by_whoever_asks_after_its_answer(cluster: Cluster) -> None:
    for round_number in range(20):
        write_tags(cluster, f"t{round_number}")
        assert tags(cluster) == (f"t{round_number}",)


def test_a_change_of_a_file_that_was_long_at_rest_is_seen(cluster: Cluster) -> None:
    age(cluster)
    # it would refuse to write over a change that is not its own
    cluster.restart("wconfd")
    assert tags(cluster) == ()

    write_tags(cluster, "new")

    assert tags(cluster) == ("new",)


def test_a_copy_of_a_file_at_rest_serves_while_wconfd_is_away(cluster: Cluster) -> None:
    write_tags(cluster, "old")
    age(cluster)
    assert tags(cluster) == ("old",)

    cluster.kill("wconfd")

    assert tags(cluster) == ("old",)


def test_a_copy_serves_while_wconfd_is_away_though_the_file_is_young(cluster: Cluster) -> None:
    assert tags(cluster) == ()

    cluster.kill("wconfd")

    assert tags(cluster) == ()


def test_who_asks_during_a_restart_of_wconfd_waits_for_it(cluster: Cluster) -> None:
    write_tags(cluster, "new")
    cluster.restart("wconfd")

    assert tags(cluster) == ("new",)


def test_without_any_configuration_nothing_works_but_to_wait_for_a_status(idle: Cluster) -> None:
    idle.start("luxid")
    job_id = idle.submit(dummy())
    idle.kill("wconfd")
    idle.restart("luxid")

    calls: list[Request[Any]] = [QueryConfigValues(("drain_flag",)), SubmitJob((dummy(),))]
    for call in calls:
        with pytest.raises(RemoteError, match="cannot read the configuration from wconfd") as caught:
            idle.luxi(call)
        assert caught.value.wire_name == "ConfigurationError"
        assert caught.value.code == "unavailable"
    assert idle.luxi_wire(WaitForJobChange(JobId(job_id), ("status",), None, None, 0.0)) == [["queued"], []]

    idle.start("wconfd")
    assert idle.luxi(QueryConfigValues(("drain_flag", "cluster_name"))) == (False, "cluster.test")

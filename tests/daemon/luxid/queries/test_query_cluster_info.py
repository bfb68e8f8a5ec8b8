"""QueryClusterInfo and QueryConfigValues: the facts are wconfd's (luxid.md 2.2, 2.8)."""

import time

import pytest

from common.errors import RemoteError
from protocol.luxi.queries import QueryClusterInfo, QueryConfigValues
from protocol.wconfd.config import ReadConfig
from tests.support.cluster import Cluster


def test_the_answer_has_the_name_and_every_key_of_the_sheet(cluster: Cluster) -> None:
    info = cluster.luxi(QueryClusterInfo())

    assert info["name"] == "cluster.test"
    assert info["master"] == "node1.test"
    assert info["os_api_version"] == 20
    assert {"master", "uuid", "tags", "max_running_jobs", "enabled_hypervisors", "ssh_key_bits"} <= info.keys()
    assert len(info) == 55


def test_values_come_in_the_order_asked_and_an_unknown_name_is_null(cluster: Cluster) -> None:
    names = ("drain_flag", "colour", "cluster_name", "watcher_pause")

    assert cluster.luxi(QueryConfigValues(names)) == (False, None, "cluster.test", None)


def test_a_watcher_pause_counts_until_it_is_over(cluster: Cluster) -> None:
    until = int(time.time()) + 1000
    cluster.paths.watcher_pause.write_text(f"{until}\n")
    assert cluster.luxi(QueryConfigValues(("watcher_pause",))) == (until,)

    cluster.paths.watcher_pause.write_text("1000\n")
    assert cluster.luxi(QueryConfigValues(("watcher_pause",))) == (None,)


def test_the_data_collectors_are_two_tables(cluster: Cluster) -> None:
    config = cluster.wconf_wire(ReadConfig())
    info = cluster.luxi(QueryClusterInfo())

    collectors = config["cluster"]["data_collectors"]
    assert info["enabled_data_collectors"] == {name: each["active"] for name, each in collectors.items()}
    assert info["data_collector_interval"] == {name: each["interval"] for name, each in collectors.items()}
    assert collectors


def test_what_needs_no_configuration_is_answered_without_wconfd(cluster: Cluster) -> None:
    cluster.luxi(QueryConfigValues(("cluster_name",)))
    cluster.kill("wconfd")

    assert cluster.luxi(QueryConfigValues(("drain_flag", "colour"))) == (False, None)


def test_a_watcher_pause_that_cannot_be_read_is_not_taken_for_none(cluster: Cluster) -> None:
    # reading a folder as a file is an error, for root too
    cluster.paths.watcher_pause.mkdir()
    with pytest.raises(RemoteError, match="cannot be read: Is a directory"):
        cluster.luxi(QueryConfigValues(("watcher_pause",)))

    cluster.paths.watcher_pause.rmdir()
    assert cluster.luxi(QueryConfigValues(("watcher_pause",))) == (None,)

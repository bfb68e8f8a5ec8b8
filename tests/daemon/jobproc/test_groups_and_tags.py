"""Jobs on node groups and tags at the same time, with real locks (opcodes.md 4, 6.2)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.wconfd.changes import ChangeNodes
from protocol.wconfd.config import ReadConfig
from tests.daemon.luxid.ops import gated
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("c")) as cluster:
        cluster.start()
        yield cluster


def config(cluster: Cluster) -> dict[str, Any]:
    read: dict[str, Any] = cluster.wconf_wire(ReadConfig())
    return read


def group_named(cluster: Cluster, name: str) -> dict[str, Any]:
    (found,) = [group for group in config(cluster)["nodegroups"].values() if group["name"] == name]
    return dict(found)


def test_of_many_jobs_at_once_each_tag_counts_and_one_group_gets_the_name(cluster: Cluster) -> None:
    tags = [f"t{number}" for number in range(8)]
    kinds = [{"kind": "cluster"}, {"kind": "node", "name": "node1"}, {"kind": "nodegroup", "name": "default"}]

    on_tags = cluster.submit_many(
        *(({"OP_ID": "OP_TAGS_SET", "tags": [tag], **kind},) for tag in tags for kind in kinds)
    )
    on_groups = cluster.submit_many(*[({"OP_ID": "OP_GROUP_ADD", "group_name": "north"},)] * 5)
    cluster.restart("wconfd")

    assert set(cluster.wait(*on_tags)) == {"success"}
    assert sorted(cluster.wait(*on_groups)) == [*["error"] * 4, "success"]
    after = config(cluster)
    (node,) = after["nodes"].values()
    for tagged in (after["cluster"], node, group_named(cluster, "default")):
        assert tagged["tags"] == tags
    assert sorted(group["name"] for group in after["nodegroups"].values()) == ["default", "north"]


def test_what_changed_while_a_job_waited_for_the_lock_of_its_group_counts(cluster: Cluster, tmp_path: Path) -> None:
    cluster.wait(cluster.submit({"OP_ID": "OP_GROUP_ADD", "group_name": "south"}))
    uuid = group_named(cluster, "south")["uuid"]
    (node,) = config(cluster)["nodes"].values()
    holder = cluster.submit({**gated(tmp_path / "go"), "locks": {f"nodegroup/{uuid}": "shared"}})
    cluster.wait(holder, status="running")

    waiting = [
        cluster.submit({"OP_ID": "OP_GROUP_REMOVE", "group_name": "south"}),
        cluster.submit({"OP_ID": "OP_TAGS_SET", "kind": "nodegroup", "name": "south", "tags": ["late"]}),
    ]
    cluster.wait(*waiting, status="waiting")
    moved = {**node, "group": uuid}
    cluster.wconf(ChangeNodes(nodes=(moved,), removed=(), certificates={}, may_fall_short=True))
    (tmp_path / "go").touch()

    assert cluster.wait(*waiting) == ["error", "success"]
    ((_, (text, reason)),) = cluster.job(waiting[0], "opresult")[0]
    assert (reason, text.partition(";")[0]) == ("wrong_state", "node group 'south' has nodes: node1.test")
    assert group_named(cluster, "south")["tags"] == ["late"]

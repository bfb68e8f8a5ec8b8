"""Changes of the configuration by those who do not hold the locks of what they change (DESIGN section 8)."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from common.locks import LockMode, parse_lock
from common.objects.config import Network
from common.objects.kinds import DiskUuid, InstanceUuid, NetworkUuid, NodeUuid
from common.system.livelock import Livelock
from daemons.wconfd.core.config.verify import unlocked
from protocol.wconfd.config import ReadConfig
from protocol.wconfd.daemon import ListLockViolations
from tests.cli.command import run
from tests.daemon.wconfd.wire import Wire
from tests.support.cluster import Cluster
from tests.support.configs import UUIDS, disk, instance, small_config

NETWORK = Network(name="net", network="192.0.2.0/29", uuid="net", serial_no=1, ctime=0, mtime=0, tags=frozenset())


@pytest.fixture(params=[False, True], ids=["told", "refused"])
def is_required(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def strict(tmp_path: Path, is_required: bool) -> Iterator[Cluster]:
    with Cluster(tmp_path, settings=f"[wconfd]\nrequire_locks = {str(is_required).lower()}\n") as cluster:
        cluster.start("wconfd")
        yield cluster


def test_a_group_is_changed_under_its_lock_and_otherwise_told_of_or_refused(strict: Cluster, is_required: bool) -> None:
    livelock = Livelock.create(strict.paths.livelocks, "job_000007")
    call = Wire(strict.paths.wconfd_socket)
    (group, *_) = call("readConfig")["nodegroups"].values()
    lock = f"nodegroup/{group['uuid']}"
    owner = [7, livelock.path, os.getpid()]

    call("tryUpdateLocks", owner, [[lock, "exclusive"]])
    call("changeGroups", [{**group, "name": "locked"}], [])
    call("tryUpdateLocks", owner, [[lock, "shared"]])
    assert call("listLockViolations") == {"count": 0, "is_required": is_required, "latest": []}

    (group, *_) = call("readConfig")["nodegroups"].values()
    call.send("changeGroups", [{**group, "name": "unlocked"}], [])
    reply = call.reply()

    (after, *_) = call("readConfig")["nodegroups"].values()
    assert (reply["success"], after["name"]) == ((False, "locked") if is_required else (True, "unlocked"))
    shown = json.loads(run("gnt-debug", "--root", strict.root, "violations", "--output", "json").out)
    assert (shown["count"], shown["is_required"]) == (1, is_required)
    (row,) = shown["latest"]
    assert {key: row[key] for key in ("method", "pid", "changed", "lock", "is_refused")} == {
        "method": "changeGroups",
        "pid": os.getpid(),
        "changed": f"node group '{after['name'] if not is_required else 'unlocked'}'",
        "lock": lock,
        "is_refused": is_required,
    }
    livelock.remove()
    call.close()


def test_a_disk_is_its_instances_and_a_pool_changes_with_instances() -> None:
    before = attrs.evolve(
        small_config(),
        disks={DiskUuid("d1"): disk("d1")},
        instances={InstanceUuid("i1"): instance("i1", disks=["d1"])},
        networks={NetworkUuid("net"): NETWORK},
    )
    bigger = attrs.evolve(before.disks[DiskUuid("d1")], size=4096)
    taken = attrs.evolve(before.networks[NetworkUuid("net")], reservations="1" * 8, serial_no=9)
    after = attrs.evolve(before, disks={DiskUuid("d1"): bigger}, networks={NetworkUuid("net"): taken})

    assert [str(each.lock) for each in unlocked(before, after, {})] == ["instance/i1.test"]
    assert [each.title for each in unlocked(before, after, {})] == ["instance 'i1.test'"]
    assert unlocked(before, after, {parse_lock("instance/i1.test"): LockMode.SHARED}) != ()
    for enough in ("instance/i1.test", "instance/[lockset]", "cluster/BGL"):
        assert unlocked(before, after, {parse_lock(enough): LockMode.EXCLUSIVE}) == ()


def test_a_removed_node_and_a_new_one_need_their_locks() -> None:
    before = small_config()
    node = before.nodes[UUIDS.node]
    after = attrs.evolve(before, nodes={NodeUuid("other"): attrs.evolve(node, uuid="other", name="other.test")})

    assert [(each.title, str(each.lock)) for each in unlocked(before, after, {})] == [
        ("node 'other.test'", "node/other"),
        (f"node '{node.name}'", f"node/{node.uuid}"),
    ]
    assert unlocked(before, before, {}) == ()


def test_our_own_jobs_hold_the_locks_of_what_they_change(tmp_path: Path) -> None:
    with Cluster(tmp_path, settings="[wconfd]\nrequire_locks = true\n") as cluster:
        cluster.start()
        (node, *_) = cluster.wconf_wire(ReadConfig())["nodes"].values()
        ops: list[dict[str, object]] = [
            {"OP_ID": "OP_GROUP_ADD", "group_name": "east"},
            {"OP_ID": "OP_GROUP_ASSIGN_NODES", "group_name": "east", "nodes": [node["name"]]},
            {"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": "east", "alloc_policy": "unallocable"},
            {"OP_ID": "OP_TAGS_SET", "kind": "node", "name": node["name"], "tags": ["a"]},
            {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["a"]},
            {"OP_ID": "OP_NETWORK_ADD", "network_name": "net", "network": "192.0.2.0/29"},
            {
                "OP_ID": "OP_NETWORK_CONNECT",
                "network_name": "net",
                "group_name": "east",
                "network_mode": "bridged",
                "network_link": "br0",
                "network_vlan": "",
                "conflicts_check": True,
            },
            {"OP_ID": "OP_NETWORK_DISCONNECT", "network_name": "net", "group_name": "east"},
            {"OP_ID": "OP_NETWORK_RENAME", "network_name": "net", "new_name": "net2"},
            {"OP_ID": "OP_NETWORK_REMOVE", "network_name": "net2"},
            {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node["name"], "ndparams": {"spindle_count": 2}},
            {"OP_ID": "OP_CLUSTER_SET_PARAMS", "candidate_pool_size": 2},
            {"OP_ID": "OP_GROUP_RENAME", "group_name": "default", "new_name": "old"},
            {"OP_ID": "OP_GROUP_REMOVE", "group_name": "old"},
        ]
        job = cluster.submit(*ops)

        assert cluster.wait(job) == ["success"], cluster.job(job, "opresult")
        assert cluster.wconf(ListLockViolations()).count == 0

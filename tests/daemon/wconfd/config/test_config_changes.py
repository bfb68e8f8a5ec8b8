"""Changes of single objects in their wire form, over real files: answers, the short lock, durability."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from common.clusterinit import create_cluster
from common.errors import Unavailable
from common.objects.codec import decode_config
from common.paths import Paths
from daemons.wconfd.core.config import instances
from daemons.wconfd.shortlock import ShortLock
from tests.support.configs import disk_json, instance_json
from tests.support.daemons.wconfd import PEER, Calls
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio

A, B = [1, "/run/livelocks/job_1"], [2, "/run/livelocks/job_2"]
NETWORK = {"name": "net", "network": "192.0.2.0/30", "uuid": "net", "serial_no": 1}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A cluster with an instance `i`, its disk `d`, a loose disk `e`, and a network."""
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    config = orjson.loads(paths.config_data.read_bytes())
    (node,) = config["nodes"]
    config["instances"] = {"i": instance_json("i", primary_node=node, disks=["d"])}
    config["disks"] = {uuid: disk_json(uuid) for uuid in "de"}
    config["networks"] = {"net": NETWORK}
    paths.config_data.write_bytes(orjson.dumps(config))
    return paths


@pytest.fixture
async def calls(paths: Paths, nursery: trio.Nursery) -> Calls:
    return await Calls.start(paths, nursery)


async def with_node(calls: Calls, **changes: Any) -> dict[str, Any]:
    (node,) = (await calls("readConfig"))["nodes"]
    return instance_json(changes.pop("uuid", "new"), primary_node=node, **changes)


CHANGES: list[tuple[str, tuple[Any, ...]]] = [
    ("addInstanceDisk", ("i", disk_json("new"), None, False)),
    ("attachInstanceDisk", ("i", "e", 0)),
    ("detachInstanceDisk", ("i", "d")),
    ("removeInstanceDisk", ("i", "d")),
    ("removeInstance", ("i",)),
    ("setInstancePrimaryNode", ("i", "nowhere")),
    ("addTcpUdpPort", (11000,)),
    ("setInstanceStatus", ("i", "down", None, None)),
    ("allocatePort", ()),
    ("updateNetwork", (NETWORK,)),
    ("updateDisk", (disk_json("d"),)),
]
ANSWERS_BOOL = 7


@pytest.mark.parametrize(("method", "args"), CHANGES, ids=lambda value: value if isinstance(value, str) else "")
async def test_while_anybody_holds_the_configuration_nothing_is_changed(
    calls: Calls, paths: Paths, method: str, args: tuple[Any, ...]
) -> None:
    before = paths.config_data.read_bytes()
    busy = False if method in [name for name, _ in CHANGES[:ANSWERS_BOOL]] else None

    for shared in (True, False):
        await calls("lockConfig", A, shared)
        assert await calls(method, *args) is busy
    assert paths.config_data.read_bytes() == before

    await calls("unlockConfig", A)
    assert await calls(method, *args) not in (False, None)
    assert decode_config(orjson.loads(paths.config_data.read_bytes())) == calls.config.config


@pytest.mark.parametrize("is_lock_first", [False, True])
async def test_a_change_is_refused_or_in_what_the_next_holder_reads(calls: Calls, is_lock_first: bool) -> None:
    found: dict[str, Any] = {}

    async def allocate() -> None:
        found["port"] = await calls("allocatePort")

    async def lock() -> None:
        found["config"] = await calls("lockConfig", A, False)

    for _ in range(10):
        async with trio.open_nursery() as nursery:
            for each in (lock, allocate) if is_lock_first else (allocate, lock):
                nursery.start_soon(each)
        highest = found["config"]["cluster"]["highest_used_port"]
        assert found["port"] in (None, highest)
        assert (await calls("readConfig")) == found["config"]
        await calls("unlockConfig", A)


async def test_adding_answers_true_and_commits_the_owners_addresses(calls: Calls) -> None:
    address = await calls("generateIp", A, "net")
    await calls("generateIp", B, "net")

    assert await calls("addInstance", await with_node(calls), A, False) is True

    config = await calls("readConfig")
    assert (address, config["networks"]["net"]["reservations"]) == ("192.0.2.0", "1000")
    assert config["instances"]["new"]["mtime"] == config["mtime"]


async def test_an_added_disk_has_its_minors_from_the_configuration_from_then_on(calls: Calls) -> None:
    (node,) = (await calls("readConfig"))["nodes"]
    minors = await calls("allocateDRBDMinor", "new", [node, "n2"])
    place = [node, "n2", 11000, *minors, "secret"]
    drbd = disk_json("new", dev_type="drbd", logical_id=place)

    assert await calls("addInstanceDisk", "i", drbd, None, False) is True

    assert dict(await calls("computeDRBDMap")) == {node: [[0, "new"]], "n2": [[0, "new"]]}
    assert not calls.reservations.state.minors


@pytest.mark.parametrize(
    ("method", "args", "name", "text"),
    [
        ("attachInstanceDisk", ("i", "e", 7), "GenericError", "is 0 to 1, not 7"),
        ("attachInstanceDisk", ("i", "d", None), "ReservationError", "attached to instance 'i.test'"),
        ("attachInstanceDisk", ("none", "d", None), "ConfigurationError", "no instance"),
        ("setInstanceStatus", ("i", "sideways", None, None), "GenericError", "one of up, down, offline"),
        ("setInstanceStatus", ("i", None, 1, None), "GenericError", "expected true or false"),
        ("setInstanceStatus", ("i", None, None), "GenericError", "lacks admin_state_source"),
        ("updateNode", (NETWORK,), "GenericError", "invalid node: "),
        ("updateNetwork", ({**NETWORK, "serial_no": 9},), "ConfigurationError", "its serial number is 1, not 9"),
        ("replaceFilter", (None, -1, [], "PAUSE", [], 3), "GenericError", "expected a priority of at least 0"),
        ("replaceFilter", (None, 1, [[5, []]], "PAUSE", [], 3), "GenericError", "expected [name, expression]"),
        ("replaceFilter", (None, 1, [], ["RATE_LIMIT", 0], [], 3), "GenericError", "RATE_LIMIT must be greater than 0"),
        ("getObject", ("instance", "none"), "GenericError", "there is no instance 'none'"),
        ("getObject", ("job",), "GenericError", "kinds are cluster, node"),
    ],
)
async def test_a_refused_change_says_why_and_leaves_the_file(
    calls: Calls, paths: Paths, method: str, args: tuple[Any, ...], name: str, text: str
) -> None:
    before = paths.config_data.read_bytes()

    found, message = await calls.refused(method, *args)

    assert (found, text in message) == (name, True), message
    assert paths.config_data.read_bytes() == before


async def test_the_status_answers_the_whole_instance(calls: Calls) -> None:
    answer = await calls("setInstanceStatus", "i", None, False, "user")

    assert answer == (await calls("readConfig"))["instances"]["i"] == await calls("getObject", "instance", "i.test")
    assert (answer["serial_no"], answer["disks_active"], answer["admin_state_source"]) == (2, False, "user")


async def test_one_object_is_the_same_as_in_the_whole(calls: Calls) -> None:
    config = await calls("readConfig")
    (node,) = config["nodes"].values()

    assert await calls("getObject", "cluster") == config["cluster"]
    assert await calls("getObject", "node", node["name"]) == node
    assert await calls("getObject", "disk", "e") == config["disks"]["e"]


async def test_a_filter_rule_of_no_uuid_gets_one_and_is_replaced_by_it(calls: Calls) -> None:
    uuid = await calls(
        "replaceFilter", None, 5, [["opcode", ["=", "OP_ID", "x"]]], ["RATE_LIMIT", 2], [["a", "b", 1]], 7
    )

    assert await calls("replaceFilter", uuid, 1, [], "REJECT", [], 9) == uuid

    assert (await calls("readConfig"))["filters"] == {
        uuid: {"uuid": uuid, "priority": 1, "predicates": [], "action": "REJECT", "reason_trail": [], "watermark": 9}
    }
    assert await calls("deleteFilter", uuid) is True
    assert (await calls("readConfig"))["filters"] == {}


@pytest.mark.parametrize(
    ("method", "args", "answer"), [("replaceFilter", ("f", 1, [], "PAUSE", [], 3), "f"), ("deleteFilter", ("f",), True)]
)
async def test_a_change_of_a_filter_rule_waits_until_the_configuration_is_given_back(
    calls: Calls, nursery: trio.Nursery, method: str, args: tuple[Any, ...], answer: Any
) -> None:
    await calls("lockConfig", B, False)
    done: list[Any] = []

    async def change() -> None:
        done.append(await calls(method, *args))

    nursery.start_soon(change)
    await wait_until_async(lambda: bool(calls.locks.state.all_pending()), what="the change waits for the lock")
    assert not done
    await calls("unlockConfig", B)

    await wait_until_async(lambda: done == [answer], what="the change is made")
    await wait_until_async(lambda: not calls.locks.state.owners(), what="the daemon gives the lock back")


async def test_arguments_may_be_named_in_the_other_dialect(calls: Calls) -> None:
    params = {"instance": "i", "admin_state": "down", "disks_active": None, "admin_state_source": None}
    call = {"jsonrpc": "2.0", "id": 1, "method": "setInstanceStatus", "params": params}

    answer = await calls.service.answer(orjson.dumps(call), PEER)

    assert answer.payload is not None
    assert orjson.loads(answer.payload)["result"]["admin_state"] == "down"


async def test_destruction_needs_the_bgl_and_keeps_it(calls: Calls) -> None:
    assert (await calls.refused("prepareClusterDestruction", A))[0] == "GenericError"
    await calls("tryUpdateLocks", A, [["cluster/BGL", "exclusive"]])
    # somebody as urgent as one can be, first in order
    await calls("updateLocksWaiting", [0, "/run/livelocks/job_0"], -20, [["cluster/BGL", "shared"]])

    for _ in range(2):
        assert await calls("prepareClusterDestruction", A) == []

    assert await calls("listLocks", A) == []
    assert await calls("hasPendingRequest", [0, "/run/livelocks/job_0"])
    assert (await calls("readConfig"))["cluster"]["master_node"] == ""
    reply = await calls.reply({"method": "verifyConfig", "args": []})
    assert reply["result"][0] == "ConfigVerifyError"


async def test_commits_wait_until_the_configuration_is_given_back(calls: Calls, nursery: trio.Nursery) -> None:
    await calls("generateIp", A, "net")
    await calls("lockConfig", B, False)
    done: list[Any] = []

    async def commit() -> None:
        done.append(await calls("commitTemporaryIps", A))

    nursery.start_soon(commit)
    await wait_until_async(lambda: bool(calls.locks.state.all_pending()), what="the commit waits for the lock")
    assert not done
    assert (await calls("readConfig"))["networks"]["net"].get("reservations") is None

    await calls("unlockConfig", B)

    await wait_until_async(lambda: done == [[]], what="the commit is answered")
    assert (await calls("readConfig"))["networks"]["net"]["reservations"] == "1000"
    # and the lock is free again
    await wait_until_async(lambda: not calls.locks.state.owners(), what="the daemon gives the lock back")


async def test_a_commit_does_not_wait_for_ever_and_leaves_no_request(calls: Calls, paths: Paths) -> None:
    await calls("lockConfig", B, False)
    short_lock = ShortLock(calls.config, calls.locks, str(paths.livelocks / "wconf-daemon_1"))

    with pytest.raises(Unavailable, match="the configuration is locked by job/2; repeat the call"):
        await short_lock.wait_and_change(None, instances.allocate_port, patience_s=0.0)

    assert not calls.locks.state.all_pending()
    assert calls.config.config.cluster.highest_used_port == 10999


async def test_who_holds_the_configuration_may_commit(calls: Calls) -> None:
    await calls("reserveIp", A, "net", "192.0.2.3", False)
    await calls("lockConfig", A, False)

    await calls("commitTemporaryIps", A)

    assert (await calls("readConfig"))["networks"]["net"]["reservations"] == "0001"

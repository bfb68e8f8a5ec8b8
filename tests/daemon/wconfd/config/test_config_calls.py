"""The calls on the whole configuration in their wire form, over a real file (wconfd.md 2.2)."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from common.access import Role
from common.clusterinit import create_cluster
from common.ids import JobId
from common.locks import Owner
from common.paths import Paths
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.filestores import KeptFiles, ReservationStore
from daemons.wconfd.locks.lockstore import LockStore
from daemons.wconfd.rpc import routes
from protocol.peer import Peer
from protocol.serving.service import Service
from tests.support.daemons.wconfd import handlers_over

pytestmark = pytest.mark.trio

A, B = (Owner(JobId(number), f"/run/livelocks/job_{number}") for number in (1, 2))
PEER = Peer(pid=1, uid=0, gid=0, role=Role.FULL)


class Wire:
    """Calls by name, as a client of Ganeti's makes them."""

    def __init__(self, service: Service, store: ConfigStore, paths: Paths) -> None:
        self._service = service
        self.store = store
        self.paths = paths

    async def reply(self, method: str, *args: Any) -> dict[str, Any]:
        payload = orjson.dumps({"method": method, "args": list(args)})
        answer = await self._service.answer(payload, PEER)
        assert answer.payload is not None
        assert answer.payload.isascii()
        reply: dict[str, Any] = orjson.loads(answer.payload)
        return reply

    async def __call__(self, method: str, *args: Any) -> Any:
        reply = await self.reply(method, *args)
        assert reply["success"], reply
        return reply["result"]


@pytest.fixture
async def wire(tmp_path: Path, nursery: trio.Nursery) -> Wire:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "größe.test", "node1.test")
    store = ConfigStore.load(paths)
    await nursery.start(store.run)
    locks = LockStore.load(paths.locks_data)
    await nursery.start(locks.run)
    handlers = handlers_over(
        paths, store, locks, ReservationStore.load(paths.tempres_data, locks.known.meet), KeptFiles.load(paths)
    )
    return Wire(Service(routes(handlers)), store, paths)


def renamed(config: dict[str, Any], name: str) -> dict[str, Any]:
    return {**config, "cluster": {**config["cluster"], "cluster_name": name}}


async def test_reading_answers_the_file(wire: Wire) -> None:
    config = await wire("readConfig")

    assert config == orjson.loads(wire.paths.config_data.read_bytes())
    assert config["cluster"]["cluster_name"] == "größe.test"


async def test_a_batch_of_the_other_dialect_gets_the_same_bytes(wire: Wire) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "readConfig"}

    answer = await wire._service.answer(orjson.dumps([call]), PEER)

    assert answer.payload is not None
    assert orjson.loads(answer.payload)[0]["result"] == await wire("readConfig")


async def test_locking_answers_the_configuration_to_one_and_null_to_others(wire: Wire) -> None:
    config = await wire("lockConfig", A.to_wire(), False)

    assert config == await wire("readConfig")
    assert await wire("lockConfig", B.to_wire(), False) is None
    assert await wire("lockConfig", B.to_wire(), True) is None
    assert await wire("lockConfig", A.to_wire(), False) == config
    assert await wire("unlockConfig", A.to_wire()) == []
    assert await wire("unlockConfig", A.to_wire()) == []
    assert await wire("lockConfig", B.to_wire(), True) == config


async def test_asking_for_less_than_is_held_keeps_what_is_held(wire: Wire) -> None:
    await wire("lockConfig", A.to_wire(), False)

    await wire("lockConfig", A.to_wire(), True)

    assert await wire("lockConfig", B.to_wire(), True) is None


async def test_a_shared_lock_is_made_exclusive_if_nobody_else_has_it(wire: Wire) -> None:
    await wire("lockConfig", A.to_wire(), True)
    await wire("lockConfig", B.to_wire(), True)

    assert await wire("lockConfig", A.to_wire(), False) is None
    await wire("unlockConfig", B.to_wire())
    assert await wire("lockConfig", A.to_wire(), False) is not None


async def test_writing_needs_the_exclusive_lock(wire: Wire) -> None:
    config = await wire("lockConfig", A.to_wire(), True)

    reply = await wire.reply("writeConfig", A.to_wire(), renamed(config, "other"))

    assert (reply["success"], reply["result"][0]) == (False, "GenericError")
    assert "take it with lockConfig" in reply["result"][1][0]
    assert await wire("writeConfigAndUnlock", A.to_wire(), renamed(config, "other")) is False
    assert await wire("readConfig") == config


async def test_a_write_counts_once_and_keeps_the_lock(wire: Wire) -> None:
    config = await wire("lockConfig", A.to_wire(), False)

    for _ in range(2):
        assert await wire("writeConfig", A.to_wire(), renamed(config, "other")) == []

    after = await wire("readConfig")
    assert (after["cluster"]["cluster_name"], after["serial_no"]) == ("other", config["serial_no"] + 1)
    assert after == orjson.loads(wire.paths.config_data.read_bytes())
    assert await wire("lockConfig", B.to_wire(), True) is None


async def test_writing_and_unlocking_delivered_twice_answers_false(wire: Wire) -> None:
    config = await wire("lockConfig", A.to_wire(), False)

    assert await wire("writeConfigAndUnlock", A.to_wire(), renamed(config, "other")) is True
    assert await wire("writeConfigAndUnlock", A.to_wire(), renamed(config, "other")) is False

    after = await wire("lockConfig", B.to_wire(), False)
    assert (after["cluster"]["cluster_name"], after["serial_no"]) == ("other", config["serial_no"] + 1)


async def test_a_misshapen_configuration_is_refused_with_its_place(wire: Wire) -> None:
    config = await wire("lockConfig", A.to_wire(), False)

    reply = await wire.reply("writeConfig", A.to_wire(), {**config, "serial_no": "x"})

    assert reply["result"] == ["GenericError", ["invalid configuration: expected int, got 'x' @ $.serial_no"]]
    assert await wire("readConfig") == config


async def test_verification_reports_all_problems_of_what_was_written(wire: Wire) -> None:
    assert await wire("verifyConfig") == []
    config = await wire("lockConfig", A.to_wire(), False)
    cluster = {**config["cluster"], "enabled_disk_templates": [], "master_node": ""}
    await wire("writeConfig", A.to_wire(), {**config, "cluster": cluster})

    reply = await wire.reply("verifyConfig")

    name, (text, problems) = reply["result"]
    assert name == "ConfigVerifyError"
    assert problems == ["no disk template is enabled", "the master node '' is none of the nodes"]
    assert all(problem in text for problem in problems)


async def test_flushing_answers_unit_also_for_an_unknown_group(wire: Wire) -> None:
    config = await wire("readConfig")
    wire.paths.ssconf_file("cluster_name").unlink()

    assert await wire("flushConfig") == []
    assert await wire("flushConfigGroup", "none") == []

    assert await wire("readConfig") == config


async def test_a_write_as_ganetis_clients_send_it_counts_once_even_if_nothing_differs(wire: Wire) -> None:
    """They leave out the members of groups (wconfd.md 7.1); recorded: the serial number grows."""
    config = await wire("lockConfig", A.to_wire(), False)
    groups = {
        uuid: {key: value for key, value in group.items() if key != "members"}
        for uuid, group in config["nodegroups"].items()
    }

    for _ in range(2):
        assert await wire("writeConfig", A.to_wire(), {**config, "nodegroups": groups}) == []

    after = await wire("readConfig")
    assert after == {**config, "serial_no": config["serial_no"] + 1, "mtime": after["mtime"]}
    assert after["mtime"] > config["mtime"]
    assert after == orjson.loads(wire.paths.config_data.read_bytes())
    assert await wire("writeConfig", A.to_wire(), after) == []
    assert await wire("readConfig") == after

"""The lock of the configuration among the other locks (wconfd.md 2.2)."""

import json
from collections.abc import Callable

import pytest

from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster

Job = Callable[[int], WireOwner]
CONFIG = [["cluster/config", "exclusive"]]


@pytest.mark.parametrize("dialect", ["ganeti", "jsonrpc"])
def test_it_is_an_ordinary_lock_that_others_can_wait_for(
    cluster: Cluster, connect: Callable[[str], Wire], job: Job, dialect: str
) -> None:
    call = connect(dialect)
    config = call("lockConfig", job(1), False)
    assert config == call("readConfig") == json.loads(cluster.paths.config_data.read_bytes())
    assert call("listAllLocksOwners") == [["cluster/config", [[job(1), "exclusive"]]]]
    assert call("lockConfig", job(2), True) is None
    assert call("updateLocksWaiting", job(2), 0, CONFIG) == [job(1)]

    config["cluster"]["cluster_name"] = "other.test"
    assert call("writeConfigAndUnlock", job(1), config) is True

    assert call("listLocks", job(2)) == CONFIG
    assert json.loads(cluster.paths.config_data.read_bytes())["cluster"]["cluster_name"] == "other.test"
    assert call("readConfig")["serial_no"] == config["serial_no"] + 1


def test_taking_it_is_refused_with_a_pending_request_and_giving_it_back_gives_that_up(call: Wire, job: Job) -> None:
    call("tryUpdateLocks", job(1), [["node/a", "exclusive"]])
    call("updateLocksWaiting", job(2), 0, [["node/a", "shared"]])

    with pytest.raises(Refused, match="job/2 has a pending request for 'node/a'"):
        call("lockConfig", job(2), False)
    assert call("unlockConfig", job(2)) == []

    assert call("lockConfig", job(2), False) is not None


def test_who_holds_it_gets_the_configuration_also_while_it_waits_for_more(call: Wire, job: Job) -> None:
    for number in (1, 2):
        assert call("lockConfig", job(number), True) is not None
    assert call("updateLocksWaiting", job(1), 0, CONFIG) == [job(2)]

    assert call("lockConfig", job(1), True) == call("readConfig")

    assert call("hasPendingRequest", job(1)) is True
    assert call("listLocks", job(1)) == [["cluster/config", "shared"]]


def test_a_write_of_what_was_read_before_the_last_change_is_refused(call: Wire, job: Job) -> None:
    old = call("lockConfig", job(1), False)
    newer = {**old, "cluster": {**old["cluster"], "maintain_node_health": True}}
    assert call("writeConfig", job(1), newer) == []
    # its second delivery
    assert call("writeConfig", job(1), newer) == []
    serial = old["serial_no"]

    for method in ("writeConfig", "writeConfigAndUnlock"):
        with pytest.raises(Refused, match=f"its serial number is {serial + 1}, not {serial}; read it again"):
            call(method, job(1), old)

    assert call("readConfig")["cluster"]["maintain_node_health"] is True
    assert call("listLocks", job(1)) == CONFIG


def test_it_comes_after_all_other_locks(call: Wire, job: Job) -> None:
    call("tryUpdateLocks", job(1), [["network/z", "shared"]])
    assert call("lockConfig", job(1), False) is not None

    with pytest.raises(Refused, match="lock order violation: 'network/zz' asked while holding 'cluster/config'"):
        call("tryUpdateLocks", job(1), [["network/zz", "shared"]])


def test_a_writer_that_dies_loses_it(call: Wire, job: Job, spawn: Callable[[int], Holder]) -> None:
    dying = spawn(1)
    config = call("lockConfig", dying.owner, False)
    call("updateLocksWaiting", job(2), 0, CONFIG)

    dying.kill()

    assert call("waitLocks", job(2), 30) is True
    assert call("writeConfigAndUnlock", dying.owner, config) is False
    with pytest.raises(Refused, match="does not hold; take it with lockConfig"):
        call("writeConfig", dying.owner, config)

"""changeNodes over the wire: made once, known again by the next daemon, refused while the configuration is locked."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster

Connect = Callable[..., Wire]


def addition(call: Wire, name: str) -> list[Any]:
    """The arguments that add a candidate."""
    (master, *_) = call("readConfig")["nodes"].values()
    number = name.removeprefix("node")
    node = {
        **master,
        "uuid": f"uuid-{name}",
        "name": name,
        "serial_no": 0,
        "primary_ip": f"10.0.0.{number}",
        "secondary_ip": f"10.0.0.{number}",
    }
    return [[node], [], {node["uuid"]: "AA:BB"}, False]


def test_a_change_that_is_delivered_twice_is_made_once_even_by_the_next_daemon(
    cluster: Cluster, connect: Connect
) -> None:
    call = connect()
    before = call("readConfig")
    given = addition(call, "node2")

    stamp = call("changeNodes", *given)
    again = connect()("changeNodes", *given)
    call("allocatePort")
    file = cluster.paths.config_data.read_bytes()
    cluster.configure("[ganeti]\nallow_uncopied = true\n")
    cluster.restart("wconfd")
    call = connect()

    assert call("changeNodes", *given) == again == stamp
    assert cluster.paths.config_data.read_bytes() == file
    after = call("readConfig")
    assert after["serial_no"] == before["serial_no"] + 2
    assert after["cluster"]["candidate_certs"] == {"uuid-node2": "AA:BB"}
    assert after["nodes"]["uuid-node2"]["serial_no"] == 1


def test_while_an_owner_has_locked_the_configuration_nothing_is_changed(
    cluster: Cluster, connect: Connect, job: Callable[[int], WireOwner]
) -> None:
    call = connect()
    given = addition(call, "node2")
    call("lockConfig", job(1), False)

    assert call("changeNodes", *given) is None
    assert "uuid-node2" not in call("readConfig")["nodes"]
    call("unlockConfig", job(1))
    assert call("changeNodes", *given) is not None


@pytest.mark.usefixtures("cluster")
def test_a_size_of_the_pool_can_be_set_again_after_another_one(connect: Connect) -> None:
    call = connect()

    for size in (5, 3, 5):
        call("changeNodes", [], [], {}, False, size)

    assert call("readConfig")["cluster"]["candidate_pool_size"] == 5


@pytest.mark.usefixtures("cluster")
def test_a_size_of_the_pool_that_is_delivered_twice_is_set_once(connect: Connect) -> None:
    call = connect()

    stamp = call("changeNodes", [], [], {}, False, 5)
    call("allocatePort")
    config = call("readConfig")
    call("changeNodes", [], [], {}, False, 5)

    assert stamp is not None
    assert call("readConfig") == config

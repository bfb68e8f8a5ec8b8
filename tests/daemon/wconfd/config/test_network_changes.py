"""changeNetworks over the wire: made once, known again by the next daemon, refused while an owner has the lock."""

from collections.abc import Callable
from typing import Any

from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster

NETWORK: dict[str, Any] = {"name": "net1", "network": "192.0.2.0/30", "uuid": "uuid-net", "serial_no": 0}


def test_a_change_of_networks_is_made_once_and_not_while_an_owner_has_locked_the_configuration(
    cluster: Cluster, connect: Callable[..., Wire], job: Callable[[int], WireOwner]
) -> None:
    call = connect()
    before = call("readConfig")

    call("lockConfig", job(1), False)
    assert call("changeNetworks", [NETWORK], []) is None
    call("unlockConfig", job(1))
    stamp = call("changeNetworks", [NETWORK], [])
    cluster.restart("wconfd")
    call = connect()

    assert call("changeNetworks", [NETWORK], []) == stamp
    after = call("readConfig")
    assert after["serial_no"] == before["serial_no"] + 1
    assert after["networks"]["uuid-net"]["serial_no"] == 1
    assert call("changeNetworks", [], ["uuid-net"])[0] == before["serial_no"] + 2
    assert call("readConfig")["networks"] == {}

"""changeGroups and changeTags over the wire: made once, known again by the next daemon, refused while it is locked."""

from collections.abc import Callable
from typing import Any

from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster

Connect = Callable[..., Wire]


def addition(call: Wire, name: str) -> list[Any]:
    """The arguments that add a group."""
    (default, *_) = call("readConfig")["nodegroups"].values()
    return [[{**default, "uuid": f"uuid-{name}", "name": name, "serial_no": 0}], []]


def test_a_group_that_is_added_twice_by_one_call_is_there_once_even_for_the_next_daemon(
    cluster: Cluster, connect: Connect
) -> None:
    call = connect()
    before = call("readConfig")
    given = addition(call, "g2")

    stamp = call("changeGroups", *given)
    again = connect()("changeGroups", *given)
    cluster.restart("wconfd")
    call = connect()

    assert call("changeGroups", *given) == again == stamp
    after = call("readConfig")
    assert after["serial_no"] == before["serial_no"] + 1
    assert after["nodegroups"]["uuid-g2"]["serial_no"] == 1
    call("changeGroups", [], ["uuid-g2"])
    assert "uuid-g2" not in call("readConfig")["nodegroups"]


def test_while_an_owner_has_locked_the_configuration_neither_groups_nor_tags_change(
    cluster: Cluster, connect: Connect, job: Callable[[int], WireOwner]
) -> None:
    call = connect()
    given = addition(call, "g3")
    call("lockConfig", job(1), False)

    assert call("changeGroups", *given) is None
    assert call("changeTags", "cluster", "", ["a"], []) is False
    assert "uuid-g3" not in call("readConfig")["nodegroups"]
    call("unlockConfig", job(1))
    assert call("changeTags", "cluster", "", ["a", "b"], []) is True
    assert call("changeTags", "cluster", "", [], ["a"]) is True
    assert call("readConfig")["cluster"]["tags"] == ["b"]

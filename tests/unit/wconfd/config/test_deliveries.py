"""Known again: an update that is delivered twice, with other changes in between (wconfd.md 2.3)."""

import attrs
import pytest

from common.errors import ConfigurationError
from common.objects.codec import to_json
from common.objects.kinds import InstanceUuid
from daemons.wconfd.core.config import instances
from daemons.wconfd.core.config.changes import update_cluster, update_object
from daemons.wconfd.core.config.configstate import ROOM, Deliveries, Delivery, Stamp
from tests.support.configs import instance, small_config

NOW = 2000.0


def delivery(number: int) -> Delivery:
    return Delivery.of({"uuid": "a", "serial_no": number})


def test_calls_are_the_same_by_their_content_and_not_by_its_order() -> None:
    assert Delivery.of({"uuid": "a", "serial_no": 1}) == Delivery.of({"serial_no": 1, "uuid": "a"})
    assert Delivery.of({"uuid": "a", "serial_no": 1}) != Delivery.of({"uuid": "a", "serial_no": True})


def test_the_newest_are_known_and_fit_beside_a_file() -> None:
    made = Deliveries()
    for number in range(10**6, 10**6 + ROOM + 1):
        made = made.with_one(delivery(number), (number, NOW + number / 7))

    read = Deliveries.decode(made.encode())

    assert len(made.encode()) < 3072
    assert read.stamp_of(delivery(10**6)) is None
    assert read.stamp_of(delivery(10**6 + 1)) == (10**6 + 1, NOW + (10**6 + 1) / 7)


@pytest.mark.parametrize("content", [b"", b"[", b"[[1]]", b'[["a", "b", "c"]]', b"7"])
def test_what_cannot_be_read_is_known_of_nobody(content: bytes) -> None:
    assert Deliveries.decode(content) == Deliveries()


def test_a_port_taken_in_between_does_not_hide_that_the_update_was_made() -> None:
    config = small_config()
    given = attrs.evolve(config.cluster, cluster_name="other")
    made, stamp = update_cluster(config, given, NOW)
    later, _ = instances.allocate_port(made, NOW)

    assert update_cluster(later, given, NOW + 1, stamp) == (later, stamp)
    with pytest.raises(ConfigurationError, match="its serial number is 2, not 1"):
        update_cluster(later, given, NOW + 1)


@pytest.mark.parametrize("anew", [{"ctime": 5.0, "serial_no": 9}, {"serial_no": 1}])
def test_of_an_object_that_was_made_anew_nothing_is_known(anew: dict[str, float]) -> None:
    told: Stamp = (2, NOW)
    given = instance("a", os="other")
    config = attrs.evolve(small_config(), instances={InstanceUuid("a"): attrs.evolve(instance("a"), **anew)})  # type: ignore[arg-type]

    try:
        after, _ = update_object(config, "instances", given, NOW + 1, told)
    except ConfigurationError:
        assert config.instances["a"].serial_no == 9  # type: ignore[index]
    else:
        assert to_json(after.instances["a"])["os"] == "other"  # type: ignore[index]

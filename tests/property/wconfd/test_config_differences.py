"""Laying the difference of two configurations over the first gives the second (DESIGN section 14)."""

from collections.abc import Mapping

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import Conflict, DamagedFile
from common.lease.changes import RemovedFile, WrittenFile, encode_fate
from common.objects.codec import decode_config
from common.objects.config import Config
from common.objects.kinds import Hypervisor, NodeUuid
from daemons.wconfd.core.config.configstate import ConfigState, is_same
from daemons.wconfd.core.config.replicas import TOP, Difference, difference, overlay
from tests.property.test_config_round_trip import configs
from tests.support.configs import node, recorded_json, small_config


def stored(found: Difference) -> Mapping[str, bytes]:
    """As etcd has them."""
    return {name: encode_fate(fate) for name, fate in found.items()}


def check_inverse(before: Config, after: Config) -> None:
    found = difference(ConfigState.of(before), ConfigState.of(after))

    assert is_same(overlay(before, stored(found)), after)
    # a second delivery changes nothing
    assert is_same(overlay(after, stored(found)), after)


@given(configs(), configs())
def test_a_difference_laid_over_the_first_gives_the_second(before: Config, after: Config) -> None:
    check_inverse(before, after)


@given(st.lists(configs(), min_size=3, max_size=3))
def test_a_later_difference_replaces_an_earlier_one_object_by_object(chain: list[Config]) -> None:
    states = [ConfigState.of(config) for config in chain]
    kept = {**stored(difference(states[0], states[1])), **stored(difference(states[1], states[2]))}

    assert is_same(overlay(chain[0], kept), chain[2])
    # a candidate that has got the one between, too
    assert is_same(overlay(chain[1], kept), chain[2])


def test_the_recorded_configuration_and_others_are_turned_into_each_other() -> None:
    recorded = decode_config(recorded_json())
    small = small_config()
    renamed = attrs.evolve(small, cluster=attrs.evolve(recorded.cluster, uuid=small.cluster.uuid))
    recorded = attrs.evolve(recorded, cluster=attrs.evolve(recorded.cluster, uuid=small.cluster.uuid))

    check_inverse(small, recorded)
    check_inverse(recorded, small)
    check_inverse(renamed, recorded)


@given(configs())
def test_the_same_configuration_read_twice_has_no_difference(config: Config) -> None:
    state = ConfigState.of(config)
    again = decode_config(orjson.loads(state.content))

    assert difference(state, ConfigState.of(again)) == {}


def test_true_and_one_differ_as_in_json() -> None:
    config = small_config()
    before, after = (
        attrs.evolve(config, cluster=attrs.evolve(config.cluster, hvparams={Hypervisor.KVM: {"fast": value}}))
        for value in (True, 1)
    )

    check_inverse(before, after)
    assert set(difference(ConfigState.of(before), ConfigState.of(after))) == {"cluster/cluster", TOP}


def test_of_a_thousand_nodes_only_the_changed_ones_are_told() -> None:
    config = small_config()
    nodes = {NodeUuid(each.uuid): each for each in (node(f"n{count}") for count in range(1000))}
    before = ConfigState.of(attrs.evolve(config, nodes={**config.nodes, **nodes}))
    changed = attrs.evolve(nodes[NodeUuid("uuid-n7")], drained=True)
    others = {uuid: each for uuid, each in before.config.nodes.items() if uuid != "uuid-n8"}
    config = attrs.evolve(before.config, nodes={**others, NodeUuid("uuid-n7"): changed}, serial_no=2)
    after = ConfigState.of(config, before)

    found = difference(before, after)

    assert set(found) == {"nodes/uuid-n7", "nodes/uuid-n8", TOP}
    assert isinstance(found["nodes/uuid-n7"], WrittenFile)
    assert found["nodes/uuid-n8"] == RemovedFile()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nodes/n", b"={}"),
        ("nodes/n", b"=no json"),
        ("nodes/n", b">"),
        ("nodes/n", b"?"),
        ("cluster/cluster", b"-"),
        ("shoes/n", b"-"),
        (TOP, b"-"),
        (TOP, b'={"serial_no":"x"}'),
    ],
)
def test_a_value_that_is_not_ours_is_refused_with_its_name(name: str, value: bytes) -> None:
    with pytest.raises(DamagedFile, match=f"'{name}'"):
        overlay(small_config(), {name: value})


def test_changes_of_another_cluster_are_refused() -> None:
    config = small_config()
    other = attrs.evolve(config, cluster=attrs.evolve(config.cluster, uuid="other"))
    found = difference(ConfigState.of(config), ConfigState.of(other))

    with pytest.raises(Conflict, match=r"the uuid 'other'.*prefix of its own"):
        overlay(config, stored(found))

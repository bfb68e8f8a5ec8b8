"""Saving a configuration and loading it is identity, and what shares bytes is the same as what does not."""

from typing import Any

import attrs
import orjson
from hypothesis import given
from hypothesis import strategies as st

from common.objects.codec import decode_config, decode_object, encode_config
from common.objects.config import Config, Network
from common.objects.filter import FilterRule
from common.objects.kinds import AllocPolicy, DiskUuid, FilterUuid, GroupUuid, Hypervisor, InstanceUuid, NetworkUuid
from tests.support.configs import disk, instance, small_config

KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
PARAMS = st.dictionaries(KEYS, VALUES, max_size=3)


def missing_or(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def instances(draw: st.DrawFn, uuid: str) -> Any:
    return instance(
        uuid,
        forthcoming=draw(st.none() | st.booleans()),
        name=draw(KEYS),
        hypervisor=draw(st.sampled_from([one.value for one in Hypervisor])),
        hvparams=draw(missing_or(PARAMS)),
        beparams=draw(
            missing_or(st.fixed_dictionaries({}, optional={"minmem": st.integers(0, 2**60), "vcpus": st.none()}))
        ),
        nics=draw(st.lists(st.just({"mac": "aa:00:00:00:00:01", "nicparams": {}, "uuid": "nic"}), max_size=2)),
        network_port=draw(missing_or(st.integers(1, 65535))),
        tags=draw(st.lists(KEYS, max_size=3)),
        ctime=draw(missing_or(st.floats(0, 2e9))),
    )


@st.composite
def filters(draw: st.DrawFn) -> FilterRule:
    value = {
        "watermark": draw(st.integers(0, 2**40)),
        "priority": draw(st.integers(0, 100)),
        "predicates": [["jobid", draw(st.lists(VALUES, max_size=2))] for _ in range(draw(st.integers(0, 2)))],
        "action": draw(st.sampled_from(["ACCEPT", "PAUSE", ["RATE_LIMIT", 2]])),
        "reason_trail": [["a", draw(KEYS), draw(st.integers(0, 2**62))]],
        "uuid": "f",
    }
    return decode_object(value, FilterRule, "filter rule")


@st.composite
def configs(draw: st.DrawFn) -> Config:
    config = small_config()
    (group,) = config.nodegroups.values()
    network = decode_object(
        {"name": draw(KEYS), "network": "10.0.0.0/8", "uuid": "net", "serial_no": 1}, Network, "network"
    )
    return attrs.evolve(
        config,
        cluster=attrs.evolve(config.cluster, hvparams={Hypervisor.KVM: draw(PARAMS)}, cluster_name=draw(KEYS)),
        nodegroups={GroupUuid(group.uuid): attrs.evolve(group, alloc_policy=draw(st.sampled_from(AllocPolicy)))},
        instances={InstanceUuid(uuid): draw(instances(uuid)) for uuid in draw(st.sets(KEYS, max_size=3))},
        networks={NetworkUuid("net"): network},
        disks={DiskUuid(uuid): disk(uuid, children=[]) for uuid in draw(st.sets(KEYS, max_size=2))},
        filters={FilterUuid("f"): draw(filters())},
        serial_no=draw(st.integers(1, 10**6)),
    )


@given(configs())
def test_saving_and_loading_is_identity(config: Config) -> None:
    content = encode_config(config).content

    loaded = decode_config(orjson.loads(content))

    assert content.isascii()
    assert loaded == config
    assert encode_config(loaded).content == content


@given(configs(), configs(), st.booleans())
def test_sharing_bytes_with_an_earlier_encoding_changes_nothing(one: Config, other: Config, keep: bool) -> None:
    mixed = attrs.evolve(other, instances=one.instances if keep else other.instances, cluster=one.cluster)

    assert encode_config(mixed, encode_config(one)).content == encode_config(mixed).content

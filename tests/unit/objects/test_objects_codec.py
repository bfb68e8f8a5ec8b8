"""Configuration objects from JSON and back: required, optional and defaulted keys (wconfd.md 7.1 to 7.3)."""

from typing import Any

import attrs
import orjson
import pytest

from common.errors import InvalidRequest
from common.objects.codec import decode_config, decode_object, encode_config, to_json
from common.objects.config import (
    AnyDisk,
    AnyInstance,
    BeParams,
    ForthcomingDisk,
    ForthcomingInstance,
    Instance,
    NdParams,
    Network,
    Node,
    PartialBeParams,
    PartialNdParams,
    filled,
)
from common.objects.filter import FilterRule
from common.objects.kinds import InstanceUuid
from tests.support.configs import disk_json, instance, instance_json, recorded_json, small_config


def saved(config: Any) -> Any:
    return orjson.loads(encode_config(config).content)


def read_instance(value: dict[str, Any]) -> AnyInstance:
    return decode_object(value, AnyInstance, "instance")  # type: ignore[arg-type]


def read_disk(value: dict[str, Any]) -> AnyDisk:
    return decode_object(value, AnyDisk, "disk")  # type: ignore[arg-type]


def test_the_recorded_configuration_is_saved_as_it_was_loaded() -> None:
    value = recorded_json()

    assert saved(decode_config(value)) == value


def with_fractions(value: Any) -> Any:
    """All whole numbers of fields that may have a fraction, as programs in Python tend to write them."""
    fields = ("ctime", "mtime", "cpu_speed", "vcpu-ratio", "spindle-ratio")
    if isinstance(value, dict):
        return {
            key: float(each) if key in fields and isinstance(each, int) else with_fractions(each)
            for key, each in value.items()
        }
    return list(map(with_fractions, value)) if isinstance(value, list) else value


def test_numbers_without_a_fraction_are_saved_as_whole_ones_whatever_they_were() -> None:
    value = recorded_json()

    content = encode_config(decode_config(with_fractions(value))).content

    assert orjson.dumps(with_fractions(value)).count(b".0,") > content.count(b".0,")
    # compared as texts: to Python 1.0 is 1
    assert orjson.dumps(orjson.loads(content), option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        value, option=orjson.OPT_SORT_KEYS
    )


def test_changed_numbers_are_whole_ones_too_where_they_have_no_fraction() -> None:
    config = small_config()
    ratio = attrs.evolve(config.cluster.ipolicy, vcpu_ratio=4.0, spindle_ratio=32.5)
    speed = attrs.evolve(config.cluster.ndparams, cpu_speed=2.0)
    cluster = to_json(attrs.evolve(config.cluster, ipolicy=ratio, ndparams=speed, mtime=1000.0))

    text = orjson.dumps(cluster)
    for wanted in (b'"vcpu-ratio":4,', b'"spindle-ratio":32.5', b'"cpu_speed":2', b'"mtime":1000,'):
        assert wanted in text, text
    assert b'"cpu_speed":2.0' not in text


def test_saving_adds_the_defaulted_keys_and_nothing_else() -> None:
    value = recorded_json()
    uuid, node = next(iter(value["nodes"].items()))
    for key in ("ctime", "tags"):
        del node[key]
    node["hv_state_static"] = {}

    after = saved(decode_config(value))["nodes"][uuid]

    del node["hv_state_static"]
    assert after == {**node, "ctime": 0, "tags": []}


def test_null_is_the_same_as_missing() -> None:
    value = recorded_json()
    value["cluster"] |= {"volume_group_name": None, "hv_state_static": None}

    after = saved(decode_config(value))["cluster"]

    assert "volume_group_name" not in after
    assert after["hv_state_static"] == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.update(extra=1), "invalid configuration: unknown key 'extra' @ $"),
        (lambda v: v["cluster"].update(extra=None), "unknown key 'extra' @ $.cluster"),
        (lambda v: v["cluster"].update(serial_no="x"), "expected int, got 'x' @ $.cluster.serial_no"),
        (lambda v: v["cluster"].update(mac_prefix=None), "required key 'mac_prefix' is missing @ $.cluster"),
        (lambda v: v["cluster"].update(tags="abc"), "expected a list of strings, got 'abc' @ $.cluster.tags"),
        (lambda v: v["cluster"]["hvparams"].update(vmware={}), "expected one of kvm, xen-pvm"),
        (lambda v: v["cluster"]["ipolicy"].update({"spindle_ratio": 1}), "unknown key 'spindle_ratio'"),
        (lambda v: v["nodes"].update(a=[]), "expected an object, got [] @ $.nodes['a']"),
        (lambda v: v.pop("filters"), "required key 'filters' is missing @ $.filters"),
        (lambda v: v["instances"].update(a=instance_json("a", forthcoming=0)), "expected true or false"),
        (lambda v: v["disks"].update(a=disk_json("a", children=[{"size": 1}])), "$.disks['a'].children[0]"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(change: Any, message: str) -> None:
    value = recorded_json()
    change(value)

    with pytest.raises(InvalidRequest) as refusal:
        decode_config(value)

    assert message in refusal.value.message


def test_tags_are_a_set_and_saved_sorted() -> None:
    value = recorded_json()
    value["cluster"]["tags"] = ["b", "a", "b"]

    assert saved(decode_config(value))["cluster"]["tags"] == ["a", "b"]


def test_a_settled_instance_needs_its_keys_and_drops_forthcoming_false() -> None:
    assert isinstance(read_instance(instance_json("i")), Instance)
    assert to_json(read_instance(instance_json("i", forthcoming=False))) == to_json(instance("i"))
    with pytest.raises(InvalidRequest, match="required key 'os' is missing"):
        read_instance(instance_json("i", os=None))


def test_a_forthcoming_instance_needs_uuid_and_serial_alone() -> None:
    one = read_instance({"forthcoming": True, "uuid": "i", "serial_no": 1})

    assert isinstance(one, ForthcomingInstance)
    assert (to_json(one)["forthcoming"], "name" in to_json(one)) == (True, False)
    with pytest.raises(InvalidRequest, match="required key 'serial_no' is missing"):
        read_instance({"forthcoming": True, "uuid": "i"})


def test_disks_are_nested_and_each_child_is_whole() -> None:
    mirror = disk_json(
        "d",
        dev_type="drbd",
        logical_id=["n1", "n2", 11000, 0, 1, "secret"],
        children=[disk_json("data"), {"forthcoming": True, "uuid": "meta", "serial_no": 1}],
    )

    one = read_disk(mirror)

    assert [type(child) is ForthcomingDisk for child in one.children] == [False, True]
    written = orjson.loads(orjson.dumps(to_json(one)))
    assert written["children"][0]["logical_id"] == ["xenvg", "data"]
    assert (written["mode"], written["iv_name"]) == ("rw", "")


@pytest.mark.parametrize(
    ("dev_type", "logical_id"),
    [
        ("plain", ["xenvg"]),
        ("plain", ["xenvg", 1]),
        ("drbd", ["n1", "n2", 11000, 0, True, "secret"]),
        ("file", ["qcow", "/a"]),
        ("blockdev", ["auto", "/a"]),
        ("diskless", []),
    ],
)
def test_a_disk_has_the_place_of_its_type(dev_type: str, logical_id: list[Any]) -> None:
    with pytest.raises(InvalidRequest, match="invalid disk: expected"):
        read_disk(disk_json("d", dev_type=dev_type, logical_id=logical_id))


@pytest.mark.parametrize(
    ("text", "size"), [(512, 512), (512.4, 512), ("512", 512), ("2g", 2048), ("1.5 GiB", 1536), ("1t", 1024 * 1024)]
)
def test_memory_is_a_number_of_mib_or_has_a_unit(text: Any, size: int) -> None:
    assert decode_object({"minmem": text}, PartialBeParams, "parameters").minmem == size


@pytest.mark.parametrize("text", ["", "g", "2x", True, [], "-1"])
def test_what_is_no_size_of_memory_is_refused(text: Any) -> None:
    with pytest.raises(InvalidRequest, match="expected a size in MiB"):
        decode_object({"minmem": text}, PartialBeParams, "parameters")


@pytest.mark.parametrize("action", ["ACCEPT", "PAUSE", "REJECT", "CONTINUE", ["RATE_LIMIT", 3]])
def test_a_filter_rule_keeps_predicates_and_action_as_they_are(action: Any) -> None:
    value = {
        "watermark": 7,
        "priority": 0,
        "predicates": [["jobid", ["=", "id", 7]], ["opcode", ["|", ["=", "OP_ID", "x"]]]],
        "action": action,
        "reason_trail": [["gnt:user", "maintenance", 1700000000000000000]],
        "uuid": "f",
    }

    assert orjson.loads(orjson.dumps(to_json(decode_object(value, FilterRule, "filter rule")))) == value


@pytest.mark.parametrize(
    "change",
    [
        {"action": "accept"},
        {"action": ["RATE_LIMIT", 0]},
        {"action": ["RATE_LIMIT", True]},
        {"priority": -1},
        {"watermark": -1},
        {"predicates": [[5, []]]},
        {"predicates": ["jobid"]},
        {"reason_trail": [["a", "b"]]},
    ],
)
def test_a_misshapen_filter_rule_is_refused(change: dict[str, Any]) -> None:
    value = {"watermark": 7, "priority": 0, "predicates": [], "action": "PAUSE", "reason_trail": [], "uuid": "f"}

    with pytest.raises(InvalidRequest, match="invalid filter rule"):
        decode_object(value | change, FilterRule, "filter rule")


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"network": "192.0.2.0"},
        {"network": "192.0.2.0/33"},
        {"gateway": "::1"},
        {"network": "192.0.256.0/24"},
        {"reservations": "0120"},
    ],
)
def test_a_misshapen_network_is_refused(change: dict[str, Any]) -> None:
    value = {"name": "net", "network": "192.0.2.0/24", "uuid": "n", "serial_no": 1}

    with pytest.raises(InvalidRequest, match="invalid network: expected"):
        decode_object(value | change, Network, "network")


def test_given_parameters_take_the_place_of_the_clusters() -> None:
    config = small_config()
    full: BeParams = config.cluster.beparams["default"]
    nd: NdParams = config.cluster.ndparams

    assert filled(full, PartialBeParams(vcpus=4)) == attrs.evolve(full, vcpus=4)
    assert filled(nd, PartialNdParams(ovs=False)) == nd


def test_text_beyond_ascii_is_escaped_and_read_back() -> None:
    config = small_config()
    named = attrs.evolve(config, cluster=attrs.evolve(config.cluster, cluster_name="naïve 中 \U0001f600"))

    content = encode_config(named).content

    assert content.isascii()
    assert decode_config(orjson.loads(content)) == named


def test_encoding_again_encodes_only_what_is_another_object(monkeypatch: pytest.MonkeyPatch) -> None:
    config = attrs.evolve(small_config(), instances={InstanceUuid(uuid): instance(uuid) for uuid in ("a", "b", "c")})
    before = encode_config(config)
    encoded: list[object] = []

    def noted(value: Any) -> Any:
        encoded.append(value)
        return to_json(value)

    monkeypatch.setattr("common.objects.codec.to_json", noted)
    changed = instance("b", name="other.test")

    after = encode_config(
        attrs.evolve(config, instances={**config.instances, InstanceUuid("b"): changed}, serial_no=2), before
    )

    assert encoded == [changed]
    assert decode_config(orjson.loads(after.content)) == attrs.evolve(
        config, instances={**config.instances, InstanceUuid("b"): changed}, serial_no=2
    )


def test_nodes_are_written_with_their_own_keys_first() -> None:
    config = small_config()
    node: Node = next(iter(config.nodes.values()))

    assert next(iter(to_json(node))) == "name"

"""Parameters with a shape of their own, secrets, and what differs between versions (opcodes.md 3, 5; luxid.md 3.1)."""

from typing import Any

import attrs
import pytest

from common.errors import InvalidRequest, OpcodeUnknown
from common.objects.kinds import DiskMode
from common.opcodes.base import OpCode, read_opcode, summary, with_secrets, write_opcode
from common.opcodes.instance import OpInstanceCreate, OpInstanceRecreateDisks, OpInstanceSetParams
from common.opcodes.registry import opcode_classes, parse_opcode
from common.opcodes.test import OpTestOsParams
from common.opcodes.types import DeviceChange, DiskParams, NicParams, NonEmpty, RecreatedDisk

CREATE = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "i", "disks": [], "nics": [], "mode": "create"}
MODIFY = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "i"}
RECREATE = {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "instance_name": "i"}
SECRET = {"OP_ID": "OP_TEST_OS_PARAMS", "osparams_secret": {"pw": "hunter2"}}


def test_all_opcodes_of_ganeti_are_there_and_two_of_ours() -> None:
    assert len(opcode_classes()) == 76 + 2


def test_a_disk_keeps_keys_that_only_its_provider_knows() -> None:
    disk = {"size": "2g", "mode": "ro", "provider": "p", "color": {"red": 1.0}}

    op = parse_opcode({**CREATE, "disks": [disk, {"vg": None}]})

    assert isinstance(op, OpInstanceCreate)
    first = DiskParams(size=2048, mode=DiskMode.READ_ONLY, provider="p", other={"color": {"red": 1}})
    assert op.disks == (first, DiskParams())
    assert write_opcode(op)["disks"] == [{"size": 2048, "mode": "ro", "provider": "p", "color": {"red": 1}}, {}]


def test_a_network_interface_is_written_with_what_is_set() -> None:
    op = parse_opcode({**CREATE, "nics": [{"network": "net1", "ip": "", "mac": None}, {}]})

    assert isinstance(op, OpInstanceCreate)
    assert op.nics == (NicParams(network="net1", ip=""), NicParams())
    assert write_opcode(op)["nics"] == [{"network": "net1", "ip": ""}, {}]


@pytest.mark.parametrize(
    ("nics", "changes"),
    [
        ([], ()),
        (
            [["add", {}], [2, {"ip": "pool"}]],
            (DeviceChange(NicParams(), "add", None), DeviceChange(NicParams(ip="pool"), None, 2)),
        ),
        ([["modify", -1, {"link": "br0"}]], (DeviceChange(NicParams(link="br0"), "modify", -1),)),
        ([["detach", "eth0", {}]], (DeviceChange(NicParams(), "detach", "eth0"),)),
    ],
)
def test_changes_are_read_in_all_three_forms_and_written_in_the_same(nics: list[Any], changes: tuple[Any, ...]) -> None:
    op = parse_opcode({**MODIFY, "nics": nics})

    assert isinstance(op, OpInstanceSetParams)
    assert op.nics == changes
    assert write_opcode(op)["nics"] == nics


@pytest.mark.parametrize(
    ("disks", "read"),
    [
        ([], ()),
        ([0, 15], (RecreatedDisk(0), RecreatedDisk(15))),
        ([[1, {"size": 5}]], (RecreatedDisk(1, DiskParams(size=5)),)),
    ],
)
def test_disks_to_recreate_are_indices_or_pairs(disks: list[Any], read: tuple[RecreatedDisk, ...]) -> None:
    op = parse_opcode({**RECREATE, "disks": disks})

    assert isinstance(op, OpInstanceRecreateDisks)
    assert op.disks == read
    assert write_opcode(op)["disks"] == disks


@pytest.mark.parametrize(
    ("base", "change", "said"),
    [
        (CREATE, {"nics": [{"color": "red"}]}, "nics[0]: unknown key 'color'"),
        (CREATE, {"nics": [{"link": ""}]}, "nics[0].link: expected a string that is not empty, got ''"),
        (
            CREATE,
            {"disks": [{"size": "2 apples"}]},
            "expected a size in MiB, or with a unit such as '2g', got '2 apples'",
        ),
        (CREATE, {"disks": [{"mode": "rx"}]}, "disks[0]: expected one of ro, rw, got 'rx'"),
        (MODIFY, {"nics": [["modify", {}]]}, "expected a change [add, attach, remove, detach or modify"),
        (MODIFY, {"nics": [["add", True, {}]]}, "expected a change"),
        (MODIFY, {"nics": [["add", {}], ["add", 0, {}]]}, "nics must not mix changes"),
        (MODIFY, {"disks": [["add", 0, {}], ["add", "d", {}]]}, "disks must not mix changes"),
        (RECREATE, {"disks": [0, [1, {}]]}, "disks must be all indices, or all [index, parameters]"),
        (RECREATE, {"disks": [16]}, "disks[0]: expected a disk's index, 0 to 15, got 16"),
        (RECREATE, {"disks": [[1]]}, "expected a disk's index, or [index, parameters], got [1]"),
        (MODIFY, {"color": None}, "unknown key 'color'"),
    ],
)
def test_a_wrong_structure_is_named_with_its_place(base: dict[str, Any], change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_opcode({**base, **change})

    assert said in caught.value.message


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_opcode({"OP_ID": "OP_GROUP_RENAME", "group_name": 5, "color": 1})

    assert caught.value.message == (
        "invalid opcode OP_GROUP_RENAME: unknown key 'color'; required key 'new_name' is missing; "
        "group_name: expected a string that is not empty, got 5"
    )


def test_a_misspelt_opcode_gets_a_hint() -> None:
    with pytest.raises(OpcodeUnknown, match=r"unknown opcode 'OP_NODE_AD'; did you mean .*OP_NODE_ADD"):
        parse_opcode({"OP_ID": "OP_NODE_AD"})


@attrs.frozen(kw_only=True)
class OpTextualPlugIn(OpCode):
    """One with annotations as text, as `from __future__ import annotations` makes them."""

    names: "tuple[NonEmpty, ...]" = ()


def test_annotations_may_be_text() -> None:
    assert OpTextualPlugIn.OP_ID == "OP_TEXTUAL_PLUG_IN"
    assert read_opcode(OpTextualPlugIn, {"names": ["a"]}) == OpTextualPlugIn(names=("a",))
    with pytest.raises(InvalidRequest, match="expected a string that is not empty, got ''"):
        read_opcode(OpTextualPlugIn, {"names": [""]})


def test_a_secret_is_in_memory_only() -> None:
    op = parse_opcode(SECRET)

    assert op.secret_parameters() == {"pw": "hunter2"}
    assert write_opcode(op)["osparams_secret"] == {"pw": "<redacted>"}
    assert "hunter2" not in repr(op)


def test_a_secret_comes_back_to_what_was_read_from_a_job_file() -> None:
    op = parse_opcode(SECRET)

    stored = parse_opcode(write_opcode(op))

    assert stored.secret_parameters() == {"pw": "<redacted>"}
    assert with_secrets(stored, op.secret_parameters() or {}) == op


def test_an_opcode_without_secrets_has_none_to_hand_over() -> None:
    assert OpTestOsParams().secret_parameters() is None
    assert parse_opcode(CREATE).secret_parameters() is None
    assert parse_opcode({"OP_ID": "OP_CLUSTER_QUERY"}).secret_parameters() is None


def test_opcodes_with_secrets_are_the_three_of_the_handshake() -> None:
    having = {op_id for op_id, kind in opcode_classes().items() if "osparams_secret" in kind.__annotations__}

    assert having == {"OP_INSTANCE_CREATE", "OP_INSTANCE_REINSTALL", "OP_TEST_OS_PARAMS"}


def test_private_values_are_kept_and_not_shown() -> None:
    op = parse_opcode({**CREATE, "osparams_private": {"pw": "hunter2"}})

    assert write_opcode(op)["osparams_private"] == {"pw": "hunter2"}
    assert "hunter2" not in repr(op)


def test_defaults_are_those_of_ganeti_3_0() -> None:
    create, modify = write_opcode(parse_opcode(CREATE)), write_opcode(parse_opcode(MODIFY))

    assert (create["name_check"], create["ip_check"]) == (True, True)
    assert (modify["hotplug"], modify["hotplug_if_possible"]) == (False, False)


@pytest.mark.parametrize(
    "op", [{"OP_ID": "OP_CLUSTER_VERIFY_DISKS"}, {"OP_ID": "OP_GROUP_VERIFY_DISKS", "group_name": "g"}]
)
def test_a_parameter_of_3_1_is_written_only_when_it_is_given(op: dict[str, Any]) -> None:
    assert "is_strict" not in write_opcode(parse_opcode(op))
    assert write_opcode(parse_opcode({**op, "is_strict": False}))["is_strict"] is False


def test_integral_floats_become_integers_wherever_they_stand() -> None:
    written = write_opcode(
        parse_opcode({**CREATE, "hvparams": {"a": [1.0, {"b": 2.5}]}, "source_shutdown_timeout": 7.0})
    )

    assert repr(written["hvparams"]) == "{'a': [1, {'b': 2.5}]}"
    assert repr(written["source_shutdown_timeout"]) == "7"


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ({"OP_ID": "OP_TAGS_GET", "kind": "cluster"}, "TAGS_GET(TagKindCluster)"),
        ({"OP_ID": "OP_QUERY", "what": "node", "fields": []}, "QUERY(node)"),
        ({"OP_ID": "OP_TEST_ALLOCATOR", "direction": "in", "mode": "relocate", "name": "i"}, "TEST_ALLOCATOR(None)"),
        ({"OP_ID": "OP_GROUP_RENAME", "group_name": "g", "new_name": "h"}, "GROUP_RENAME"),
        ({"OP_ID": "OP_NODE_REMOVE", "node_name": "n"}, "NODE_REMOVE(n)"),
        *(
            ({"OP_ID": "OP_TEST_DELAY", "duration": duration}, f"TEST_DELAY({shown})")
            for duration, shown in (
                (0.001, "1.0e-3"),
                (0.0999, "9.99e-2"),
                (0.01234567890123456, "1.234567890123456e-2"),
                (0.1, "0.1"),
                (9999999, "9999999.0"),
                (1e7, "1.0e7"),
                (25000000.5, "2.50000005e7"),
            )
        ),
    ],
)
def test_a_summary_shows_the_parameter_that_tells_most(op: dict[str, Any], said: str) -> None:
    assert summary(parse_opcode(op)) == said


@pytest.mark.parametrize("kind", ["job", "lock", "filter", 5, None])
def test_what_only_luxid_can_be_asked_for_is_no_parameter_of_a_query(kind: object) -> None:
    with pytest.raises(InvalidRequest, match="OP_QUERY"):
        parse_opcode({"OP_ID": "OP_QUERY", "what": kind, "fields": []})

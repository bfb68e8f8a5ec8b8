"""The opcodes on tags: of all kinds of objects, under their locks (opcodes.md 4, 6.2)."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from common.errors import PrerequisiteError, TagError
from common.objects.codec import decode_object
from common.objects.config import Config, Network
from common.objects.kinds import InstanceUuid, NetworkUuid
from daemons.jobproc.testing import UnitTrial
from daemons.jobproc.units.tags import TagsDelUnit, TagsGetUnit, TagsSearchUnit, TagsSetUnit
from tests.support.configs import UUIDS, instance, small_config

BGL = {"cluster/BGL": "shared"}
# kind, name as users write it, lock
KINDS = [
    ("cluster", None, None),
    ("cluster", "ignored", None),
    ("node", "node1", f"node/{UUIDS.node}"),
    ("nodegroup", "default", f"nodegroup/{UUIDS.group}"),
    ("nodegroup", UUIDS.group, f"nodegroup/{UUIDS.group}"),
    ("instance", "i1.test", "instance/i1.test"),
    ("network", "net", "network/uuid-net"),
    ("network", "uuid-net", "network/uuid-net"),
]


def config() -> Config:
    network = {"name": "net", "network": "192.0.2.0/24", "uuid": "uuid-net", "serial_no": 1}
    return attrs.evolve(
        small_config(),
        instances={InstanceUuid("i1"): instance("i1", tags=["rack:0"])},
        networks={NetworkUuid("uuid-net"): decode_object(network, Network, "network")},
    )


def tags_of(trial: UnitTrial, kind: str, name: str | None) -> Any:
    return trial.carry_out(TagsGetUnit, {"kind": kind, "name": name})


@pytest.mark.parametrize(("kind", "name", "lock"), KINDS)
def test_tags_are_changed_under_the_lock_of_their_object_alone(
    tmp_path: Path, kind: str, name: str | None, lock: str | None
) -> None:
    trial = UnitTrial(tmp_path, config=config())

    added = trial.carry_out(TagsSetUnit, {"kind": kind, "name": name, "tags": ["site:north", "a", "a"]})
    removed = trial.carry_out(TagsDelUnit, {"kind": kind, "name": name, "tags": ["a"]})

    assert (added, removed) == (None, None)
    assert trial.config_changes == ["changeTags", "changeTags"]
    assert trial.locks == {**BGL, **({lock: "exclusive"} if lock else {})}
    assert set(tags_of(trial, kind, name)) - {"rack:0"} == {"site:north"}


@pytest.mark.parametrize(("kind", "name", "lock"), KINDS)
def test_tags_are_told_under_a_shared_lock_if_it_is_wanted(
    tmp_path: Path, kind: str, name: str | None, lock: str | None
) -> None:
    trial = UnitTrial(tmp_path, config=config())
    tags_of(trial, kind, name)
    assert trial.locks == BGL

    trial.carry_out(TagsGetUnit, {"kind": kind, "name": name, "use_locking": True})

    assert trial.locks == {**BGL, **({lock: "shared"} if lock else {})}


def test_tags_that_are_not_there_cannot_be_removed(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config())
    trial.carry_out(TagsSetUnit, {"kind": "node", "name": "node1", "tags": ["a"]})

    with pytest.raises(PrerequisiteError, match=r"^node 'node1' does not have the tags 'b', 'c'$") as raised:
        trial.carry_out(TagsDelUnit, {"kind": "node", "name": "node1", "tags": ["c", "a", "b"]})

    assert raised.value.reason == "unknown_entity"
    assert tags_of(trial, "node", "node1") == ["a"]


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("node", "node9", "there is no node 'node9'"),
        ("nodegroup", "north", "there is no node group 'north'"),
        ("network", "net9", "there is no network 'net9'"),
        ("instance", "i9", "there is no instance 'i9'"),
        ("instance", "", "name the instance whose tags are meant"),
        ("node", None, "name the node whose tags are meant"),
    ],
)
def test_an_unknown_object_is_refused(tmp_path: Path, kind: str, name: str | None, text: str) -> None:
    trial = UnitTrial(tmp_path, config=config())

    for unit, parameters in ((TagsGetUnit, {}), (TagsSetUnit, {"tags": ["a"]}), (TagsDelUnit, {"tags": ["a"]})):
        with pytest.raises(PrerequisiteError) as raised:
            trial.carry_out(unit, {"kind": kind, "name": name, **parameters})
        assert raised.value.message == text


@pytest.mark.parametrize("unit", [TagsSetUnit, TagsDelUnit])
def test_the_rules_of_tags_are_checked_before_anything_changes(tmp_path: Path, unit: Any) -> None:
    trial = UnitTrial(tmp_path, config=config())

    with pytest.raises(TagError, match="'a b' has other characters than"):
        trial.carry_out(unit, {"kind": "cluster", "tags": ["fine", "a b"]})

    assert trial.config_changes == []


def test_an_object_with_too_many_tags_gets_no_more(tmp_path: Path) -> None:
    many = [f"t{number}" for number in range(4096)]
    trial = UnitTrial(tmp_path, config=config())
    trial.carry_out(TagsSetUnit, {"kind": "cluster", "tags": many})

    with pytest.raises(TagError, match="would have 4097 tags; at most 4096"):
        trial.carry_out(TagsSetUnit, {"kind": "cluster", "tags": ["more"]})

    trial.carry_out(TagsSetUnit, {"kind": "cluster", "tags": ["t7"]})


def test_tags_of_all_kinds_of_objects_are_found_by_a_pattern(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config())
    for kind, name, _ in KINDS:
        trial.carry_out(TagsSetUnit, {"kind": kind, "name": name, "tags": [f"on:{kind}", "x"]})
    trial.asked.clear()

    assert trial.carry_out(TagsSearchUnit, {"pattern": "^(on|rack):"}) == [
        ["/cluster", "on:cluster"],
        ["/instances/i1.test", "on:instance"],
        ["/instances/i1.test", "rack:0"],
        ["/network/net", "on:network"],
        ["/nodegroup/default", "on:nodegroup"],
        ["/nodes/node1.test", "on:node"],
    ]
    assert trial.carry_out(TagsSearchUnit, {"pattern": "^nothing$"}) == []
    assert trial.locks == BGL


def test_a_bad_pattern_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match=r"^bad regular expression 'a\(': missing \)") as raised:
        UnitTrial(tmp_path, config=config()).carry_out(TagsSearchUnit, {"pattern": "a("})

    assert raised.value.reason == "wrong_input"

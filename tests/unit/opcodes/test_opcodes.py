"""Opcodes: strict in reading, one normal form in writing (opcodes.md sections 1 and 2)."""

from typing import Any

import pytest

from common.errors import InvalidRequest, OpcodeUnknown
from common.lockdecl import LevelDeclaration, Scope, requests_for
from common.locks import LockLevel, LockMode, parse_lock
from common.opcodes.base import summary, without_unset, write_opcode
from common.opcodes.command import OpRunCommand
from common.opcodes.registry import opcode_classes, parse_opcode
from common.opcodes.test import OpTestDelay
from common.queue.jobs import Dependency, JobState

COMMAND = {"OP_ID": "OP_RUN_COMMAND", "argv": ["tar", "-cf", "a b.tar", "."]}
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 1}


def test_an_opcode_is_read_with_its_defaults() -> None:
    assert parse_opcode(DELAY) == OpTestDelay(duration=1)


def test_null_and_missing_are_the_same() -> None:
    assert parse_opcode({**DELAY, "on_node_uuids": None, "depends": None, "comment": None}) == parse_opcode(DELAY)


def test_the_normal_form_has_defaults_and_leaves_out_what_is_unset() -> None:
    assert write_opcode(parse_opcode(DELAY)) == {
        "OP_ID": "OP_TEST_DELAY",
        "duration": 1,
        "on_master": True,
        "on_nodes": [],
        "repeat": 0,
        "interruptible": False,
        "no_locks": True,
        "priority": 0,
        "depends": None,
        "comment": None,
        "reason": [],
    }


def test_nulls_that_a_process_wrote_are_shown_as_unset() -> None:
    normal = write_opcode(parse_opcode(DELAY))

    assert without_unset({**normal, "dry_run": None, "on_node_uuids": None}) == normal


@pytest.mark.parametrize("op_id", sorted(opcode_classes()))
def test_the_id_of_a_class_is_its_name(op_id: str) -> None:
    words = op_id.removeprefix("OP_").split("_")

    assert opcode_classes()[op_id].__name__ == "Op" + "".join(word.capitalize() for word in words)


def test_the_design_and_the_wire_name_of_dependencies_are_both_read() -> None:
    wanted = (Dependency(-1, (JobState.SUCCESS,)),)

    assert parse_opcode({**DELAY, "depend": [[-1, ["success"]]]}).depends == wanted
    assert parse_opcode({**DELAY, "depends": [[-1, ["success"]]]}).depends == wanted
    # null is missing, under either name
    assert parse_opcode({**DELAY, "depends": [[-1, ["success"]]], "depend": None}).depends == wanted
    assert parse_opcode({**DELAY, "depend": [[-1, ["success"]]], "depends": None}).depends == wanted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"duration": "x"}, "duration: expected number, got 'x'"),
        ({"duration": -1}, "duration must be at least 0, got -1"),
        ({"color": 1}, "unknown key 'color'"),
        ({"priority": 5}, "priority must be -10 (high), 0 (normal) or 10 (low), got 5"),
        ({"priority": "high"}, "priority: expected int, got 'high'"),
        ({"on_nodes": "n1"}, "on_nodes: expected a list, got 'n1'"),
        ({"on_master": 1}, "on_master: expected true or false, got 1"),
        ({"depend": [[3, []]], "depends": [[4, []]]}, "'depend' and 'depends' are one parameter"),
        ({"depends": [[3, None]]}, "a dependency is [job id, [states]]"),
        ({"depends": [[3, ["running"]]]}, "may wait for canceled, success or error"),
        ({"reason": None}, "reason must be a list"),
        ({"reason": [["a", "b"]]}, "a reason is [source, reason, time in ns]"),
        ({"debug_level": -1}, "debug_level must be at least 0"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_value(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_opcode({**DELAY, **change})

    assert said in caught.value.message


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(InvalidRequest, match="required key 'duration' is missing"):
        parse_opcode({"OP_ID": "OP_TEST_DELAY"})


def test_an_unknown_opcode_is_named() -> None:
    with pytest.raises(OpcodeUnknown, match="unknown opcode 'OP_NO'"):
        parse_opcode({"OP_ID": "OP_NO"})


@pytest.mark.parametrize("value", [None, 5, "OP_TEST_DELAY", [], {}, {"OP_ID": 7}])
def test_what_is_no_opcode_at_all_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="OP_ID"):
        parse_opcode(value)


def test_a_command_needs_a_program() -> None:
    for argv in ([], [""], ["a\0b"]):
        with pytest.raises(InvalidRequest, match="argv must"):
            parse_opcode({**COMMAND, "argv": argv})


def test_summaries_show_what_tells_most() -> None:
    assert summary(parse_opcode(DELAY)) == "TEST_DELAY(1.0)"
    assert summary(parse_opcode(COMMAND)) == "RUN_COMMAND(tar -cf 'a b.tar' .)"
    assert summary(parse_opcode({**COMMAND, "comment": "back up"})) == "RUN_COMMAND(back up)"
    assert summary(parse_opcode({**COMMAND, "argv": ["x" * 80]})) == f"RUN_COMMAND({'x' * 57}...)"
    assert summary(parse_opcode({"OP_ID": "OP_TEST_DUMMY"})) == "TEST_DUMMY"


def test_the_locks_of_a_command_become_its_declaration() -> None:
    op = parse_opcode({**COMMAND, "locks": {"node/b": "exclusive", "node/a": "shared", "network/[lockset]": "shared"}})

    declaration = op.lock_declaration()

    assert declaration.levels == {
        LockLevel.NODE: (
            LevelDeclaration(LockMode.SHARED, Scope.NAMED, frozenset("a")),
            LevelDeclaration(LockMode.EXCLUSIVE, Scope.NAMED, frozenset("b")),
        ),
        LockLevel.NETWORK: (LevelDeclaration(LockMode.SHARED, Scope.ALL),),
    }
    assert not declaration.is_big_lock


def test_a_declaration_stands_for_these_requests() -> None:
    op = OpRunCommand(argv=("x",), locks={parse_lock("node/b"): LockMode.SHARED, parse_lock("node/a"): LockMode.SHARED})

    requests = requests_for(LockLevel.NODE, op.lock_declaration().levels[LockLevel.NODE])

    assert [request.to_wire() for request in requests] == [["node/a", "shared"], ["node/b", "shared"]]


@pytest.mark.parametrize("lock", ["cluster/config", "cluster/[lockset]"])
def test_a_lock_that_no_job_may_ask_for_is_refused(lock: str) -> None:
    with pytest.raises(InvalidRequest, match=r"no job may ask for 'cluster/.*cluster/BGL"):
        parse_opcode({**COMMAND, "locks": {lock: "shared"}})


def test_whoever_asks_for_the_big_lock_gets_it_exclusively() -> None:
    assert parse_opcode({**COMMAND, "locks": {"cluster/BGL": "exclusive"}}).lock_declaration().is_big_lock

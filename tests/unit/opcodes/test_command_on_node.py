"""OP_RUN_COMMAND with a node (DESIGN section 13)."""

from collections.abc import Mapping

import pytest

from common.errors import InvalidRequest
from common.lockdecl import LockDeclaration, Scope, requests_for
from common.locks import LockLevel, LockMode, LockRequest, read_lock
from common.opcodes.base import OpCode, summary, write_opcode
from common.opcodes.command import OpRunCommand
from common.opcodes.registry import parse_opcode

UUIDS = {"web1": "uuid-1", "web2": "uuid-2"}


def command(**parameters: object) -> OpCode:
    return parse_opcode({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], **parameters})


def resolve(level: LockLevel, name: str) -> str | None:
    assert level is LockLevel.NODE
    return UUIDS.get(name)


def locks(declared: LockDeclaration) -> Mapping[str, LockMode | None]:
    """The requests by the names of the locks."""
    requests = [request for level, entries in declared.levels.items() for request in requests_for(level, entries)]
    return {str(request.lock): request.mode for request in requests}


def test_the_nodes_lock_is_implied_and_shared() -> None:
    declared = command(node="web1", locks={"instance/shop": "exclusive"}).lock_declaration(resolve)

    assert locks(declared) == {"instance/shop": LockMode.EXCLUSIVE, "node/uuid-1": LockMode.SHARED}


@pytest.mark.parametrize("name", ["node/web1", "node/uuid-1"])
def test_a_user_may_name_the_nodes_lock_exclusively_by_name_or_uuid(name: str) -> None:
    declared = command(node="web1", locks={name: "exclusive", "node/uuid-2": "shared"}).lock_declaration(resolve)

    assert locks(declared) == {"node/uuid-1": LockMode.EXCLUSIVE, "node/uuid-2": LockMode.SHARED}


def test_a_lock_of_all_nodes_includes_it() -> None:
    declared = command(node="web1", locks={"node/[lockset]": "exclusive"}).lock_declaration(resolve)

    assert declared.levels[LockLevel.NODE][0].scope is Scope.ALL
    assert len(declared.levels[LockLevel.NODE]) == 1


def test_a_shared_lock_of_all_nodes_does_not_include_an_exclusive_one() -> None:
    op = command(node="web1", locks={"node/[lockset]": "shared", "node/web1": "exclusive"})

    requests = requests_for(LockLevel.NODE, op.lock_declaration(resolve).levels[LockLevel.NODE])

    assert LockRequest(read_lock("node/uuid-1"), LockMode.EXCLUSIVE) in requests
    assert LockRequest(read_lock("node/[lockset]"), LockMode.SHARED) in requests


@pytest.mark.parametrize("resolver", [None, resolve])
def test_a_node_that_is_not_known_makes_the_level_unknown(resolver: object) -> None:
    declared = command(node="web9", locks={"node/uuid-2": "shared"}).lock_declaration(resolver)  # type: ignore[arg-type]  # one of two

    assert [entry.scope for entry in declared.levels[LockLevel.NODE]] == [Scope.NAMED, Scope.UNKNOWN]


def test_a_command_here_locks_nodes_by_uuid_and_other_names_as_they_are() -> None:
    wanted = {"node/web1": "shared", "node/uuid-1": "exclusive", "node-res/web2": "shared", "node/store": "exclusive"}

    declared = command(locks=wanted).lock_declaration(resolve)

    shared, exclusive = LockMode.SHARED, LockMode.EXCLUSIVE
    assert locks(declared) == {"node/store": exclusive, "node/uuid-1": exclusive, "node-res/uuid-2": shared}


def test_only_a_command_on_a_node_is_resumable() -> None:
    assert command(node="web1").is_resumable
    assert not command().is_resumable
    assert not parse_opcode({"OP_ID": "OP_TEST_DELAY", "duration": 1}).is_resumable


def test_the_summary_begins_with_the_node() -> None:
    assert summary(command(node="web1", argv=["apt-get", "-y", "upgrade"])) == "RUN_COMMAND(web1: apt-get -y upgrade)"
    assert summary(command(node="web1", comment="upgrade")) == "RUN_COMMAND(web1: upgrade)"
    assert summary(command(comment="upgrade")) == "RUN_COMMAND(upgrade)"


def test_what_a_failover_does_is_for_commands_on_nodes() -> None:
    with pytest.raises(InvalidRequest, match="on_failover is for commands on a node"):
        command(on_failover="kill")
    with pytest.raises(InvalidRequest, match="on_failover"):
        command(node="web1", on_failover="wait")

    op = command(node="web1", on_failover="kill")

    assert parse_opcode(write_opcode(op)) == op
    assert write_opcode(op)["on_failover"] == "kill"


def test_a_command_here_is_written_without_the_parameters_of_nodes() -> None:
    assert not {"node", "on_failover"} & write_opcode(OpRunCommand(argv=("true",))).keys()

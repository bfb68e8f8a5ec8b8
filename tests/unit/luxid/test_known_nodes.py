"""A job that names a node which there is not is refused when it is submitted (DESIGN section 13)."""

import pytest

from common.opcodes.command import OpRunCommand
from common.opcodes.registry import parse_opcode
from daemons.luxid.core.submission.newjobs import names_nodes, unknown_node
from tests.support.configs import node

NODES = [node("web1.lab"), node("web2.lab"), node("db.lab"), node("db.far")]


def on(name: str | None) -> OpRunCommand:
    return OpRunCommand(argv=("true",), node=name)


@pytest.mark.parametrize("name", [None, "web1.lab", "web1", NODES[0].uuid, "db.far"])
def test_names_and_their_short_forms_are_known(name: str | None) -> None:
    assert unknown_node([on(name)], NODES) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wbe1", "there is no node 'wbe1'; did you mean 'web1.lab'"),
        ("web1.lba", "there is no node 'web1.lba'; did you mean 'web1.lab'"),
        ("printer", "there is no node 'printer'; 'gnt-node list' shows all"),
        ("db", "node 'db' may be any of db.lab, db.far; give the whole name"),
    ],
)
def test_another_name_is_refused_with_those_that_are_like_it(name: str, text: str) -> None:
    refused = unknown_node([on("web1"), on(name)], NODES)

    assert refused is not None
    assert refused.message.startswith(f"opcode 2: {text}")


def test_only_commands_on_nodes_need_the_configuration() -> None:
    assert not names_nodes([on(None), parse_opcode({"OP_ID": "OP_TEST_DUMMY"})])
    assert names_nodes([on(None), on("web1")])

"""The answer to each question (confd.md 4)."""

from typing import Any

import pytest

from daemons.confd.core.answers import answer
from daemons.confd.core.catalogue import Catalogue
from protocol.confd.questions import Argument, ConfdFault, ConfdRole, MasterField, Question, Reply, ReplyStatus, Terms
from tests.support.machines.confds import rich_document, snapshot_of

DOCUMENT = rich_document()
SNAPSHOT = snapshot_of(DOCUMENT)


def ask(question: Question, argument: Argument = None) -> Reply:
    assert isinstance(SNAPSHOT.catalogue, Catalogue)
    return answer(SNAPSHOT.catalogue, question, argument)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("node1.test", ConfdRole.MASTER),
        # only its whole name is the master's
        ("node1", ConfdRole.CANDIDATE),
        ("uuid-node1.test", ConfdRole.CANDIDATE),
        ("node2.test", ConfdRole.OFFLINE),
        ("node3", ConfdRole.DRAINED),
    ],
)
def test_the_role_of_a_node(name: str, role: ConfdRole) -> None:
    assert ask(Question.NODE_ROLE, name) == Reply(ReplyStatus.OK, role, 7)


@pytest.mark.parametrize("name", ["node", "node1.tes", "node9.test", ""])
def test_a_name_is_cut_at_dots_only(name: str) -> None:
    reply = ask(Question.NODE_ROLE, name)

    assert (reply.status, reply.serial) == (ReplyStatus.ERROR, 0)
    assert f"Node name {name} not found" in str(reply.answer)


def test_an_address_leads_to_the_node_of_its_instance_by_its_link() -> None:
    default = ask(Question.NODE_BY_INSTANCE_IP, Terms(ip="198.51.100.1"))
    other = ask(Question.NODE_BY_INSTANCE_IP, Terms(link="br7", ip="198.51.100.2"))
    wrong_link = ask(Question.NODE_BY_INSTANCE_IP, Terms(ip="198.51.100.2"))

    assert default == other == Reply(ReplyStatus.OK, "192.0.2.1", 7)
    assert wrong_link == Reply(ReplyStatus.ERROR, ConfdFault.UNKNOWN_ENTRY)


def test_a_list_of_addresses_gets_a_triple_for_each() -> None:
    reply = ask(Question.NODE_BY_INSTANCE_IP, Terms(ips=("198.51.100.9", "198.51.100.1")))

    assert reply == Reply(ReplyStatus.OK, [[1, 0, 0], [0, "192.0.2.1", 7]], 7)


def test_one_address_counts_more_than_a_list() -> None:
    reply = ask(Question.NODE_BY_INSTANCE_IP, Terms(ip="198.51.100.1", ips=("198.51.100.9",)))

    assert reply.answer == "192.0.2.1"


def test_instance_addresses_are_those_of_one_link() -> None:
    assert ask(Question.INSTANCE_IPS).answer == ["198.51.100.1"]
    assert ask(Question.INSTANCE_IPS, "br7").answer == ["198.51.100.2"]
    assert ask(Question.INSTANCE_IPS, "br8") == Reply(ReplyStatus.OK, [], 7)


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        ("node1", ["node1.test", 0, "web.test", "disk/1", "primary", "node2.test"]),
        ("uuid-node2.test", ["node2.test", 4, "web.test", "disk/1", "secondary", "node1.test"]),
    ],
)
def test_minors_are_told_from_each_end(asked: str, row: list[object]) -> None:
    reply = ask(Question.NODE_DRBD, asked)

    assert reply == Reply(ReplyStatus.OK, [row], 11 if asked == "node1" else 12)


def test_a_node_without_minors_has_an_empty_list() -> None:
    assert ask(Question.NODE_DRBD, "node3").answer == []


def test_instances_are_told_whole_for_both_of_their_nodes() -> None:
    primary, secondary = ask(Question.NODE_INSTANCES, "node1"), ask(Question.NODE_INSTANCES, "node2")

    assert isinstance(primary.answer, list)
    assert isinstance(secondary.answer, list)
    assert [[each["name"] for each in some] for some in primary.answer] == [["web.test"], []]
    assert secondary.answer == primary.answer[::-1]
    assert primary.answer[0][0]["nics"][0]["ip"] == "198.51.100.1"


def test_disks_are_told_in_the_order_of_the_instance_with_its_serial() -> None:
    reply = ask(Question.INSTANCE_DISKS, "web")

    assert isinstance(reply.answer, list)
    assert [disk["uuid"] for disk in reply.answer] == ["plain", "mirror"]
    assert reply.serial == 5


@pytest.mark.parametrize("fields", [(MasterField.NODE_IP, MasterField.NAME), (MasterField.IP,)])
def test_fields_of_the_master_come_in_the_order_asked(fields: tuple[MasterField, ...]) -> None:
    values = ["node1.test", DOCUMENT["cluster"]["master_ip"], "192.0.2.1"]

    assert ask(Question.MASTER, Terms(fields=fields)).answer == [values[field] for field in fields]


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("/nodes/uuid-node2.test/primary_ip", "192.0.2.2"),
        ("/instances/uuid-web/nics/1/ip", "198.51.100.2"),
        ("/cluster/nicparams/default/link", DOCUMENT["cluster"]["nicparams"]["default"]["link"]),
    ],
)
def test_a_pointer_leads_to_its_value(pointer: str, found: object) -> None:
    assert ask(Question.CONFIG, pointer) == Reply(ReplyStatus.OK, found, 7)


@pytest.mark.parametrize(
    "pointer", ["", "cluster", "/", "/instances/uuid-web/nics/3", "/instances/uuid-web/nics/-1", "/version/0"]
)
def test_a_pointer_that_leads_nowhere_is_a_wrong_argument(pointer: str) -> None:
    assert ask(Question.CONFIG, pointer) == Reply(ReplyStatus.ERROR, ConfdFault.ARGUMENT)


@pytest.mark.parametrize(
    "question", [Question.NODE_ROLE, Question.NODE_DRBD, Question.NODE_INSTANCES, Question.INSTANCE_DISKS]
)
@pytest.mark.parametrize("argument", [None, Terms(ip="192.0.2.1")])
def test_questions_about_an_object_need_its_name(question: Question, argument: Argument) -> None:
    reply = ask(question, argument)

    assert reply.status is ReplyStatus.ERROR
    assert str(reply.answer).startswith("Invalid query type ")


def test_collectors_that_are_not_configured_are_active() -> None:
    document: dict[str, Any] = rich_document()
    document["cluster"]["data_collectors"] = {"drbd": {"active": False, "interval": 7}}
    catalogue = snapshot_of(document).catalogue
    assert isinstance(catalogue, Catalogue)

    told = answer(catalogue, Question.COLLECTORS, None).answer

    assert isinstance(told, dict)
    assert told["drbd"] == {"active": False, "interval": 7}
    assert told["lv"] == {"active": True, "interval": 5_000_000}
    assert told["inst-status-xen"]["active"] is False

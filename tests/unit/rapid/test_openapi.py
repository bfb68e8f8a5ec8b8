"""The OpenAPI document is made of the table and the types, and tells what the code does."""

import enum
import re
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from common.errors import InvalidRequest, OpcodeUnknown
from common.ids import JobId
from common.opcodes.base import at_least, write_opcode
from common.opcodes.registry import opcode_classes, parse_opcode
from common.queue.explanation import Faded, NotKnown, Reason, WaitsForJob
from common.queue.jobs import JobState
from common.validation import Checked, rule_of, says
from common.wire import unstructure
from daemons.rapid.ganeti.ganetirows import rows as ganetis_rows
from daemons.rapid.openapi.docpage import draw_docs, draw_problems
from daemons.rapid.openapi.document import openapi
from daemons.rapid.openapi.schemas import Schemas, any_opcode
from daemons.rapid.resources.resourcerows import rows
from tests.support.web.jsonschemas import Document


@pytest.fixture(scope="module")
def document() -> Document:
    return Document(openapi([*rows(), *ganetis_rows()], "1.2"))


def fits(document: Document, name: str, value: object) -> bool:
    return not list(document.faults({"$ref": f"#/components/schemas/{name}"}, value))


def test_every_call_and_every_opcode_is_there(document: Document) -> None:
    content = document.content
    verbs = {(verb.upper(), path) for path, calls in content["paths"].items() for verb in calls}

    assert content["openapi"] == "3.1.0"
    assert {(call.verb, re.sub(r":\w+", "", call.path)) for call in rows()} <= verbs
    assert set(content["components"]["schemas"]["OpCode"]["discriminator"]["mapping"]) == set(opcode_classes())


def test_every_reference_leads_somewhere_and_no_operation_has_the_id_of_another(document: Document) -> None:
    schemas = document.content["components"]["schemas"]
    ids = [each["operationId"] for verbs in document.content["paths"].values() for each in verbs.values()]

    found = set(re.findall(r"#/components/schemas/(\w+)", str(document.content)))
    assert found <= set(schemas)
    assert {name for name, schema in schemas.items() if not schema} == set()
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("value", "is_right"),
    [
        ({"OP_ID": "OP_TEST_DELAY", "duration": 1.5}, True),
        ({"OP_ID": "OP_TEST_DELAY", "duration": -1}, False),
        ({"OP_ID": "OP_TEST_DELAY"}, False),
        ({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": {"node/web1": "exclusive"}, "nice": 5}, True),
        ({"OP_ID": "OP_RUN_COMMAND", "argv": []}, False),
        ({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": {"node/web1": "tightly"}}, False),
        ({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "nice": 20}, False),
        ({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "exit_codes": [0, 256]}, False),
        ({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "priority": 3}, False),
        ({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "depends": [[-1, ["success"]]]}, True),
        ({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "depends": [[-1, ["running"]]]}, False),
        ({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "colour": "red"}, False),
        ({"OP_ID": "OP_NODE_ADD"}, False),
        ({"OP_ID": "OP_NONE"}, False),
    ],
)
def test_the_document_judges_an_opcode_as_luxid_does(document: Document, value: dict[str, Any], is_right: bool) -> None:
    assert fits(document, "OpCode", value) == is_right
    if is_right:
        normal = write_opcode(parse_opcode(value))
        assert fits(document, "OpCode", {key: part for key, part in normal.items() if part is not None})
    else:
        with pytest.raises((InvalidRequest, OpcodeUnknown)):
            parse_opcode(value)


def test_reasons_are_told_apart_by_their_kind(document: Document) -> None:
    reasons: list[Reason] = [
        WaitsForJob(JobId(7), JobState.RUNNING, None, ()),
        Faded(1.0, 0.5, 3),
        NotKnown("what", "why"),
    ]
    value = {"id": 7, "reasons": unstructure(reasons)}

    assert fits(document, "Explanation", value)
    assert fits(document, "Explanation", {"id": 7, "reasons": None})
    assert not fits(document, "Explanation", {"id": 7, "reasons": [{"job_id": 7}]})


def test_bodies_take_no_unknown_keys_and_replies_may_get_more(document: Document) -> None:
    wish = {"action": ["RATE_LIMIT", 2]}
    result = {"count": 0, "ids": []}

    assert fits(document, "FilterWish", wish)
    assert not fits(document, "FilterWish", {**wish, "colour": 1})
    assert not fits(document, "FilterWish", {"action": ["RATE_LIMIT", 0]})
    assert fits(document, "FilterTrial", {**result, "colour": 1})


def test_fields_have_the_notes_of_the_source(document: Document) -> None:
    field = document.content["components"]["schemas"]["FilterWish"]["properties"]["reason"]

    assert field["description"] == "shown to users who ask why a job waits"


def test_validators_tell_their_rule_alone_and_joined() -> None:
    @says({"multipleOf": 3})
    def by_three(_: object, __: Checked, value: int) -> None:
        assert value % 3 == 0

    assert rule_of(at_least(0)) == {"minimum": 0}
    assert rule_of(at_least(1, 9)) == {"minimum": 1, "maximum": 9}
    assert rule_of(attrs.validators.and_(at_least(1), by_three)) == {"minimum": 1, "multipleOf": 3}
    assert rule_of(None) == {}


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Node:
    name: str
    children: "tuple[Node, ...]" = ()
    colours: Mapping[str, Colour] | None = None


attrs.resolve_types(Node)


def test_a_type_may_contain_itself() -> None:
    schemas = Schemas(any_opcode)
    content = Document({"components": {"schemas": schemas.components}})
    schema = schemas.of_request(Node)

    assert not list(content.faults(schema, {"name": "a", "children": [{"name": "b", "colours": {"x": "red"}}]}))
    assert list(content.faults(schema, {"name": "a", "children": [{"name": 1}]}))
    assert list(content.faults(schema, {"name": "a", "colours": {"x": "blue"}}))


def test_the_page_has_every_call_and_type_and_nothing_is_markup_that_was_text(document: Document) -> None:
    html = draw_docs(document.content)

    for verbs in document.content["paths"].values():
        assert all(f"id='{each['operationId']}'" in html for each in verbs.values())
    assert all(f"id='{name}'" in html for name in document.content["components"]["schemas"])
    assert "<script" not in html
    assert "&quot;RATE_LIMIT&quot;" in html
    assert "id='not_found'" in draw_problems()

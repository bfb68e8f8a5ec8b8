"""The OpenAPI document is made of the table and the types, and tells what the code does."""

import enum
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

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
from daemons.rapid.calls import Face
from daemons.rapid.ganeti.ganetirows import rows as ganetis_rows
from daemons.rapid.openapi.document import draw_docs, draw_problems, openapi
from daemons.rapid.openapi.schemas import Schemas, any_opcode
from daemons.rapid.rpc import RapidHandlers, resource_rows
from daemons.rapid.rpc import rows as all_rows
from protocol.rapid.problems import MEDIA_TYPE
from tests.support.web.jsonschemas import Anything, Document, document_of_calls

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def document() -> Document:
    return Document(openapi([*resource_rows(), *ganetis_rows()], "1.2"))


def fits(document: Document, name: str, value: object) -> bool:
    return not list(document.faults({"$ref": f"#/components/schemas/{name}"}, value))


def test_every_call_and_every_opcode_is_there(document: Document) -> None:
    content = document.content
    verbs = {(verb.upper(), path) for path, calls in content["paths"].items() for verb in calls}

    assert content["openapi"] == "3.1.0"
    assert {(call.verb, re.sub(r":\w+", "", call.path)) for call in resource_rows()} <= verbs
    assert set(content["components"]["schemas"]["OpCode"]["discriminator"]["mapping"]) == set(opcode_classes())


def test_every_row_but_pages_and_methods_of_luxi_is_in_the_document() -> None:
    table = all_rows(cast(RapidHandlers, Anything()))
    left_out = [call for call in table if not call.name and call.face is not Face.PAGE]

    assert [call.path for call in left_out if not call.path.startswith("/luxi/")] == []


def test_the_names_of_calls_stay_as_they_are() -> None:
    paths = document_of_calls().content["paths"]
    calls = [(path, verb, each["operationId"]) for path, verbs in paths.items() for verb, each in verbs.items()]
    found = {f"{name} {verb.upper()} {path}" for path, verb, name in calls}
    names = [name for _, _, name in calls]

    # a new call gets a line there
    assert found == set((DATA / "rapid" / "operations.txt").read_text().splitlines())
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z]+([A-Z][a-z0-9]*)*", name)] == []


def test_each_array_says_what_is_in_it_in_words_that_generators_know() -> None:
    arrays = [each for each in _objects(document_of_calls().content) if "array" in each.get("type", ())]

    assert arrays
    for array in arrays:
        assert "items" in array or "prefixItems" in array, array
        assert not isinstance(array.get("items"), bool), array


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _objects(each)


def test_the_events_of_a_stream_are_told_apart_by_their_name() -> None:
    document = document_of_calls()
    (content,) = document.content["paths"]["/3/events"]["get"]["responses"]["200"]["content"].values()
    changed = {"jobs": [{"id": 7, "status": "running"}]}
    begun = {"position": "1-2", "jobs": [[7, ["running"], [[1, [1700000000, 5], "message", "hello"]]]]}

    def is_event(kind: str, name: str, data: object) -> bool:
        return fits(document, kind, {"id": "1-2", "event": name, "data": data})

    assert content["x-itemSchema"] == {"$ref": "#/components/schemas/ClusterEvent"}
    assert is_event("ClusterEvent", "jobs", changed)
    assert is_event("ClusterEvent", "reasons", {})
    assert not is_event("ClusterEvent", "jobs", {"jobs": [{"id": "7"}]})
    assert not is_event("ClusterEvent", "other", {})
    assert is_event("FollowEvent", "begin", begun)
    assert not is_event("FollowEvent", "begin", {**begun, "jobs": [[7, ["running"]]]})
    assert is_event("FollowEvent", "changes", ["1-3", {"outputs": [[7, "output", "hello", 5, False]]}])


def test_a_status_of_a_result_and_a_refusal_has_both() -> None:
    paths = document_of_calls().content["paths"]

    assert set(paths["/3/health"]["get"]["responses"]["503"]["content"]) == {"application/json", MEDIA_TYPE}
    assert "content" not in paths["/3/openapi.json"]["get"]["responses"]["304"]


def test_every_reference_leads_somewhere(document: Document) -> None:
    schemas = document.content["components"]["schemas"]

    found = set(re.findall(r"#/components/schemas/(\w+)", str(document.content)))
    assert found <= set(schemas)
    assert {name for name, schema in schemas.items() if not schema} == set()


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

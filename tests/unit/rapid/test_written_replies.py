"""Results of handlers as JSON: the fast way writes what the slow one writes."""

import enum

import attrs
import pytest

from common.jsontext import ascii_json
from common.queue.jobs import JobState
from common.shapes import Row
from common.wire import unstructure
from daemons.rapid.calls import Call, Given
from daemons.rapid.transport.routing import success
from protocol.rapid.jobs import LogLine

ROW = Call("GET", "/3/x", None, "Show it.")  # type: ignore[arg-type]  # nobody calls it


@attrs.frozen
class Pair(Row):
    left: int
    right: JobState


class Colour(enum.Enum):
    RED = "red"


VALUES = {
    "plain": {"jobs": [{"id": 1, "ops": [{"OP_ID": "OP_X", "n": 1.5, "none": None, "yes": True}]}], "next": None},
    "typed in plain": {"job": {"id": 1, "status": JobState.QUEUED}, "log": [LogLine(1, 2.5, "message", "hello")]},
    "typed": Pair(1, JobState.ERROR),
    "tuples of typed": (Pair(1, JobState.ERROR), (Pair(2, JobState.SUCCESS),)),
    "not ascii": {"name": 'Grün \\ " \n 🙂 \x7f'},
    "keys of an enum": {Colour.RED: 1},
    "a large number": {"n": 2**70},
    "deep": [[[[1]]]],
    "nothing": None,
    "text": "text",
}


@pytest.mark.parametrize("what", VALUES)
def test_a_result_is_written_as_its_wire_form_in_ascii(what: str) -> None:
    reply = success(ROW, Given(VALUES[what], 200))

    assert bytes(reply.body) == ascii_json(unstructure(VALUES[what])) + b"\n"
    assert bytes(reply.body).isascii()

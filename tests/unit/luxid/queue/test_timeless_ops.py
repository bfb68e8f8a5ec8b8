"""What is compared of jobs that are sent again under a key that a person named. Source: DESIGN section 16."""

import json
from typing import Any

import pytest

from daemons.luxid.core.submission.keyed import timeless


def op(*trail: list[Any], **more: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_TEST_DUMMY", "reason": list(trail), **more}


def terms(**given: Any) -> list[Any]:
    return ["gantry:terms", json.dumps(given), 7]


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (["gnt:user", "why", 1], ["gnt:user", "why", 2]),
        (["gantry:batch", "id=b1;place=1;jobs=2", 1], ["gantry:batch", "id=b2;place=1;jobs=2", 2]),
        (terms(name="a", begin=5.0), terms(name="a", begin=9.0)),
        (terms(hold={"by": "", "at": 0.0, "why": "x"}), terms(hold={"by": "ada", "at": 5.0, "why": "x"})),
    ],
)
def test_what_the_time_makes_is_not_compared(first: list[Any], again: list[Any]) -> None:
    assert timeless(op(first)) == timeless(op(again))


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (op(["gnt:user", "why", 1]), op(["gnt:user", "other", 1])),
        (op(["gantry:batch", "id=b1;place=1;jobs=2", 1]), op(["gantry:batch", "id=b1;place=2;jobs=2", 1])),
        (op(terms(name="a")), op(terms(name="b"))),
        (op(terms(uses={"kit": 1})), op(terms(uses={"kit": 2}))),
        (op(terms(hold={"by": "", "at": 0.0, "why": ""})), op(terms())),
        (op(result=1), op(result=2)),
    ],
)
def test_all_else_makes_other_jobs(first: dict[str, Any], other: dict[str, Any]) -> None:
    assert timeless(first) != timeless(other)


def test_an_entry_that_cannot_be_read_is_compared_as_it_is() -> None:
    assert timeless(op(["gantry:terms", "{", 1]))["reason"] == [["gantry:terms", "{"]]

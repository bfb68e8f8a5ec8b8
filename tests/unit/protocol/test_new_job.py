"""A job as somebody asks for it: read in one way, and written as LUXI takes it (DESIGN section 16)."""

from typing import Any

import pytest

from common.errors import InvalidRequest
from common.queue.terms import SOURCE, Hold, JobTerms, Use, terms_of_trail
from common.wire import read_asked
from protocol.luxi.jobs import NewJob, Submission

OP = {"OP_ID": "OP_TEST_DUMMY"}
NAMED = [SOURCE, '{"name":"old","labels":{"team":"web","tier":"a"}}', 5]


def test_the_first_opcode_states_the_terms() -> None:
    job = NewJob((OP, OP), "copy", {"team": "web"}, 9.0, "after the audit", {"licences": 2, "web1:memory": 4})

    first, second = job.to_input(7)

    assert first["reason"][0][::2] == [SOURCE, 7]  # type: ignore[index]
    uses = (Use("", "licences", 2), Use("web1", "memory", 4))
    assert terms_of_trail(first["reason"]) == JobTerms("copy", {"team": "web"}, 9.0, Hold(why="after the audit"), uses)
    assert second == OP


def test_a_job_without_terms_is_its_opcodes() -> None:
    ops = ({**OP, "reason": [NAMED]}, OP)

    assert NewJob(ops).to_input(7) is ops
    assert NewJob((), "copy").to_input(7) == ()


def test_terms_win_over_those_that_the_trail_states() -> None:
    job = NewJob(({**OP, "reason": [NAMED, ["gnt:user", "", 6]]},), "new", {"tier": "b"})

    (op,) = job.to_input(7)

    assert [entry[0] for entry in op["reason"]] == ["gnt:user", SOURCE]  # type: ignore[attr-defined]
    assert terms_of_trail(op["reason"]) == JobTerms("new", {"team": "web", "tier": "b"})


def test_malformed_terms_in_the_trail_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="the terms of the job are not JSON"):
        NewJob(({**OP, "reason": [[SOURCE, "{", 5]]},), "new").to_input(7)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"jobs": [{"ops": [OP]}, {"ops": [OP], "labels": 5}]}, "jobs[1].labels: expected an object, got 5"),
        ({"jobs": [{"ops": [OP, 5]}]}, "jobs[0].ops[1]: expected an object, got 5"),
        ({"jobs": [{"ops": [OP], "uses": {"kit": "2"}}]}, "jobs[0].uses['kit']: expected int, got '2'"),
        ({"jobs": [{"ops": [OP], "nmae": "x"}]}, "jobs[0]: unknown key 'nmae'"),
        ({"jobs": 5}, "jobs: expected a list, got 5"),
        ([], "expected an object, got []"),
    ],
)
def test_what_is_wrong_is_told_after_its_path(body: Any, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_asked(body, Submission)

    assert refused.value.message == said

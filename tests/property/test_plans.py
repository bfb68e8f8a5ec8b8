"""Whatever a plan holds, it is read or refused with a place. Source: DESIGN section 16."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from protocol.plans.documents import read_document
from protocol.plans.jobs import COMMAND, TERMS, read_plan

words = st.sampled_from(
    ["", "a", "web1", "5m", "2G", "node/web1", "success", "exit=75", "tomorrow", "é", "\x00", "\ud7ff"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2), max_leaves=4
)
KEYS = (*TERMS, *COMMAND, "priority", "reason", "after", "run", "shell", "ops")
keys = st.sampled_from(KEYS)
jobs = st.dictionaries(keys, values, max_size=3).flatmap(
    lambda job: st.sampled_from([job, {**job, "run": ["a"]}, {**job, "ops": [{"OP_ID": "OP_A"}]}])
)
plans = st.fixed_dictionaries(
    {"jobs": st.lists(jobs | values, max_size=3)},
    optional={"defaults": st.dictionaries(keys, values, max_size=2) | values},
)


def outcome(text: str, name: str) -> str | None:
    """The refusal; None: it was read."""
    try:
        read_plan(read_document(text.encode(), name))
    except InvalidRequest as refused:
        return refused.message
    return None


@given(plans | values)
def test_a_plan_is_read_or_refused_with_its_place(plan: Any) -> None:
    text = json.dumps(plan)

    refusal = outcome(text, "p.json")

    assert refusal is None or refusal.startswith("p.json:")
    # and whatever stands at a key of a job
    for key in KEYS:
        again = outcome(json.dumps({"jobs": [{"run": ["a"], key: plan}]}), "p.json")
        assert again is None or again.startswith("p.json:1:")

"""What a rule says by the names of opcodes alone, against the rule itself."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from common.ids import JobId
from common.queue.filters import compile_chain
from common.queue.jobs import Job, JobOp
from daemons.luxid.core.filters.filtering import StaticMatch, op_ids_of, static_match_of
from tests.support.filterrules import filter_rule

NAMES = ("OP_A", "OP_AB")
words = st.sampled_from((*NAMES, "x"))
leaves = st.one_of(
    st.none(),
    st.tuples(
        st.sampled_from(("==", "!=", "=~", "<", "=[]")), st.sampled_from(("OP_ID", "name", "OP_ID.x")), words
    ).map(list),
    st.tuples(st.just("=="), st.sampled_from(("OP_ID", "name")), st.integers(0, 1)).map(list),
    st.tuples(st.just("?"), st.sampled_from(("OP_ID", "name"))).map(list),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: ["&", *parts]),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: ["|", *parts]),
        inner.map(lambda part: ["!", part]),
    ),
    max_leaves=4,
)
predicates = st.lists(
    st.one_of(
        st.tuples(st.just("opcode"), expressions),
        st.just(("jobid", ["<", "id", 2])),
        st.just(("reason", ["==", "reason", "x"])),
    ),
    max_size=2,
)
values: st.SearchStrategy[Any] = st.sampled_from(("x", "OP_A", 1, True, ["x"]))
opcodes = st.dictionaries(st.just("name"), values).flatmap(
    lambda rest: st.sampled_from((*NAMES, 7, None)).map(
        lambda op_id: JobOp(rest if op_id is None else {"OP_ID": op_id, **rest})
    )
)


@settings(max_examples=2_000, deadline=None)
@given(predicates, st.lists(opcodes, min_size=1, max_size=2), st.sampled_from((1, 2)))
def test_never_and_always_are_what_the_rule_says(tested: list[Any], ops: list[JobOp], job_id: int) -> None:
    rule = filter_rule(
        watermark=JobId(0), priority=0, predicates=tuple(tested), action="PAUSE", reason_trail=(), uuid="u"
    )
    job = Job(JobId(job_id), tuple(ops))

    static_match = static_match_of(rule)(op_ids_of(job))

    matches = compile_chain([rule])[0].matches(job)
    assert static_match is StaticMatch.MAYBE or matches is (static_match is StaticMatch.ALWAYS)

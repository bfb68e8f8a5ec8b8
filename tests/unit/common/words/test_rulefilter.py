"""Filters of rules: the predicates that they make, on the jobs that they are for."""

import pytest

from common.ids import JobId
from common.queue.filters import compile_chain, read_rule
from common.queue.jobs import Job, JobOp
from common.queue.terms import JobTerms, terms_entry
from common.words.filters.rulefilter import rule_predicates
from tests.support.filterrules import filter_rule


def matches(where: str) -> bool:
    """Whether a rule with this filter is for the job of the tests."""
    predicates = tuple(rule_predicates(where))
    rule = filter_rule(uuid="u", watermark=JobId(0), priority=0, predicates=predicates, action="PAUSE", reason_trail=())
    terms = terms_entry(JobTerms("17", {"build": "42", "team": "web"}), 1)
    op = JobOp({"OP_ID": "OP_TEST_DELAY", "duration": 3, "reason": [terms.to_wire(), ["gnt:user", "123", 5]]})
    (chain,) = compile_chain([read_rule(rule)])
    return chain.matches(Job(JobId(27491), (op,)))


@pytest.mark.parametrize(
    "where",
    [
        "label.build=42",
        "!label.build=43",
        "name=17",
        "name != 18",
        "reason=123",
        "reason=123 | reason=124",
        "source=gnt:user & timestamp=5",
        "duration=3",
    ],
)
def test_a_name_a_label_or_a_reason_of_digits_is_a_text(where: str) -> None:
    assert matches(where)


@pytest.mark.parametrize("trail", [5, True, "gnt:user", [7, [], ["gnt:user"]]])
def test_a_malformed_trail_in_a_file_has_no_reason(trail: object) -> None:
    predicates = tuple(rule_predicates("reason=123"))
    rule = filter_rule(uuid="u", watermark=JobId(0), priority=0, predicates=predicates, action="PAUSE", reason_trail=())

    assert not compile_chain([rule])[0].matches(Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DELAY", "reason": trail}),)))


@pytest.mark.parametrize(("where", "is_met"), [("label.team", True), ("label.rack", False), ("!label.rack", True)])
def test_a_text_alone_asks_whether_the_job_has_it(where: str, is_met: bool) -> None:
    assert matches(where) is is_met
    assert matches("name & op & reason")

"""Rules in the words that people type."""

import pytest

from common.words.filters.rulefilter import action_text, reason_text, rule_predicates, where_text


@pytest.mark.parametrize(
    "where",
    [
        "reason=upgrade",
        "op=OP_RUN_COMMAND & reason=~upgrade",
        "id > 27491",
        "id >= 5 & id < 9",
        "(reason=backup | reason=~^night)",
        "!(op=OP_TEST_DELAY)",
        'reason="two words"',
        'reason="a \\"quoted\\" word"',
        "label.build=42",
        "name=0",
        'comment="42"',
        "timeout=42",
        'comment=~"/srv/x"',
        'comment=~"m/x"',
        "label.team=~.",
    ],
)
def test_predicates_are_told_as_the_filter_that_makes_them(where: str) -> None:
    predicates = rule_predicates(where)

    assert where_text(predicates) == where
    assert rule_predicates(where_text(predicates)) == predicates


def test_conditions_of_several_predicates_all_hold() -> None:
    newer = ["jobid", [">", "id", "watermark"]]

    assert where_text([newer, ["reason", ["|", ["=", "reason", "a"], ["=", "reason", "b"]]]]) == (
        "id > watermark & (reason=a | reason=b)"
    )
    assert where_text([]) == "all jobs"


@pytest.mark.parametrize("predicate", [["opcode", ["?", "cwd"]], ["new kind", 7], "odd", ["terms", ["=", "name", 42]]])
def test_what_no_filter_can_say_is_shown_as_it_is_stored(predicate: object) -> None:
    assert where_text([predicate]) in ('["?","cwd"]', '["new kind",7]', '"odd"', '["=","name",42]')


def test_action_and_reason_are_those_that_were_typed() -> None:
    assert (action_text("PAUSE"), action_text(["RATE_LIMIT", 3])) == ("PAUSE", "RATE_LIMIT 3")
    assert reason_text([["gnt:user", "the mirror is down", 1], ["luxid", "", 2]]) == "the mirror is down"
    assert reason_text([["luxid", "", 2]]) == ""

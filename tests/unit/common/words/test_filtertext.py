"""Filters as people type them. Source: cli.md 1.4."""

from datetime import UTC
from typing import Final

import pytest

from common.errors import InvalidRequest
from common.query.qlang import Expression
from common.words.filters.filtertext import parse_filter, starred
from common.words.filters.jobfilter import is_filter, job_filter, search_filter

# 2026-11-21 12:00 UTC
NOW: Final = 1_795_262_400.0
DAY: Final = 86_400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the forms of Ganeti
        ('name == "web1"', ["==", "name", "web1"]),
        ("id >= 12", [">=", "id", 12]),
        ("id != -3", ["!=", "id", -3]),
        ("name = 'it\\'s'", ["==", "name", "it's"]),
        ('"a b" in tags', ["=[]", "tags", "a b"]),
        ("12 not in ids", ["!", ["=[]", "ids", 12]]),
        ("name =~ m/web[0-9]+/", ["=~", "name", "web[0-9]+"]),
        ("name !~ m#/dev/.*#si", ["!", ["=~", "name", "(?is)/dev/.*"]]),
        ('name =* "web?.*"', ["=~", "name", r"^web.\..*(\..*)?$"]),
        ('name !* "web*"', ["!", ["=~", "name", r"^web.*(\..*)?$"]]),
        ("archived", ["?", "archived"]),
        ("not archived", ["!", ["?", "archived"]]),
        ("a and b and c", ["&", ["?", "a"], ["?", "b"], ["?", "c"]]),
        ("a or not b and c", ["|", ["?", "a"], ["&", ["!", ["?", "b"]], ["?", "c"]]]),
        ("(a or b) and c", ["&", ["|", ["?", "a"], ["?", "b"]], ["?", "c"]]),
        ("be/memory > 5 or nic.mac/0 == 'x'", ["|", [">", "be/memory", 5], ["==", "nic.mac/0", "x"]]),
        # the short ones
        ("status=running & op=OP_X", ["&", ["==", "status", "running"], ["==", "op", "OP_X"]]),
        ("!(a|b)&&c", ["&", ["!", ["|", ["?", "a"], ["?", "b"]]], ["?", "c"]]),
        ("summary=~web1.example", ["=~", "summary", "web1.example"]),
        ("android=1", ["==", "android", 1]),
        ("name=10d", ["==", "name", "10d"]),
        ("in in not", ["=[]", "not", "in"]),
        ("order=~^or", ["=~", "order", "^or"]),
    ],
)
def test_a_text_becomes_an_expression(text: str, expected: object) -> None:
    assert parse_filter(text) == expected
    # and one that luxid understands
    Expression.from_wire(expected)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "character 1: expected a field, a value with 'in', '!' or '(' at the end"),
        ("status=", "character 8: expected a value at the end"),
        ("status=a b", "character 10: expected 'and', 'or' or the end before 'b'"),
        ("(a & b", "character 7: expected ')' at the end"),
        ("a &", "character 4: expected a field, a value with 'in', '!' or '(' at the end"),
        ('x = "never ends', """character 5: the text begun with " has no end before '"never ends'"""),
        ("(" * 3000, f"character 101: more than 100 brackets and negations in each other before {'(' * 20!r}"),
        ("not " * 101 + "a", "character 400: more than 100 brackets and negations in each other before ' not a'"),
        ('"x"', "character 4: expected 'in' after a value at the end"),
        (
            "x =~ m/a/g",
            "character 6: unknown flags 'g', i and s are possible, at the regular expression before 'm/a/g'",
        ),
    ],
)
def test_a_wrong_text_is_refused_with_the_place(text: str, error: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_filter(text)

    assert refused.value.message == f"filter, {error}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("op=run_command", ["=[]", "opid", "OP_RUN_COMMAND"]),
        ("op != OP_TEST_DELAY", ["!", ["=[]", "opid", "OP_TEST_DELAY"]]),
        ("'RUN_COMMAND' in summary", ["=[]", "summary", "RUN_COMMAND"]),
        ("not summary=~web", ["!", ["=~", "summary_text", "web"]]),
        ("reason=upgrade", ["=[]", "reason", "upgrade"]),
        ("reason =~ ^rate-limit", ["=~", "reason_text", "^rate-limit"]),
        ("node = web1 & batch = 5f2c", ["&", ["==", "node", "web1"], ["==", "batch", "5f2c"]]),
        ("label.team=web & name=~^backup", ["&", ["==", "label.team", "web"], ["=~", "name", "^backup"]]),
        ("label.rerun-of=17", ["==", "label.rerun-of", "17"]),
        ("name=007", ["==", "name", "007"]),
        ("label.team | !name", ["|", ["=~", "label.team", "."], ["!", ["=~", "name", "."]]]),
        ("hold & tries > 1", ["&", ["?", "hold"], [">", "tries", 1]]),
        ("end > yesterday", [">", "end_ts", int(NOW) - DAY - DAY // 2]),
        (
            "received<2h ago or begin >= 2026-11-21 14:00 and id=1",
            ["|", ["<", "received_ts", int(NOW) - 7200], ["&", [">=", "begin_ts", int(NOW) + 7200], ["==", "id", 1]]],
        ),
        ("(start > monday 9:30)", [">", "start_ts", int(NOW) - 5 * DAY - 9000]),
        ("end_ts > 1790000000", [">", "end_ts", 1_790_000_000]),
        ("age > 30m", ["<", "received_ts", int(NOW) - 1800]),
        ("status=failed | status=queued", ["|", ["==", "status", "error"], ["==", "status", "queued"]]),
    ],
)
def test_filters_of_jobs_have_names_of_their_own(text: str, expected: object) -> None:
    assert job_filter(text, NOW, UTC) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web", ["=~", "words", "web"]),
        ("Web upgrade", ["&", ["=~", "words", "web"], ["=~", "words", "upgrade"]]),
        ("team=web", "no field 'team'"),
        ("a.b* [x]", ["&", ["=~", "words", r"a\.b\*"], ["=~", "words", r"\[x\]"]]),
        ("431", ["|", ["==", "id", 431], ["=~", "words", "431"]]),
        ("9" * 19, ["=~", "words", "9" * 19]),
        ("failed web", ["&", ["==", "status", "error"], ["=~", "words", "web"]]),
        ("Running", ["==", "status", "running"]),
        # fields that are conditions alone, and conditions
        ("hold", ["?", "hold"]),
        ("not name", ["!", ["=~", "name", "."]]),
        ("web & name", "no field 'web'"),
        ("status=queued", ["==", "status", "queued"]),
    ],
)
def test_words_are_looked_for_and_filters_stay_filters(text: str, expected: object) -> None:
    if isinstance(expected, str):
        with pytest.raises(InvalidRequest, match=expected):
            search_filter(text, NOW, UTC)
        return
    assert search_filter(text, NOW, UTC) == expected


def test_opcodes_have_no_order() -> None:
    with pytest.raises(InvalidRequest, match="'op' can be compared by = and != only"):
        job_filter("op < OP_X", NOW, UTC)


def test_an_id_is_no_filter() -> None:
    assert [is_filter(text) for text in ("12", "status=x", "not x", "web*")] == [False, True, True, False]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("name=foo*", [("name", "=*", "foo*")]),
        ("status=queued & !(name != 'a*b')", [("name", "!*", "a*b")]),
        ("received < yesterday 14:00 & label.team==web*", [("label.team", "=*", "web*")]),
        ("name =* foo* & summary=~a* & id > 5 & user=ada", []),
    ],
)
def test_a_star_in_a_comparison_of_whole_values_is_found(text: str, found: list[tuple[str, str, str]]) -> None:
    assert starred(text) == found

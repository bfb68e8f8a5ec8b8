"""`gnt-filter`. Source: cli.md 3; filters design, "Examples"; luxid.md 6."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.errors import InvalidRequest
from common.query.qlang import Expression
from common.wire import structure
from common.words.filters.rulefilter import rule_predicates
from protocol.luxi.queue import ReplaceFilter
from tests.cli.command import Ended, run
from tests.cli.fakeluxid import FakeJob, FakeLuxid

Start = Callable[..., FakeLuxid]
Filter = Callable[..., Ended]
FIRST = "00000000-0000-4000-8000-000000000001"
SECOND = "00000000-0000-4000-8000-000000000002"
NEWER = ["jobid", [">", "id", "watermark"]]


@pytest.fixture
def gnt_filter(tmp_path: Path) -> Filter:
    """Run `gnt-filter` against the root `tmp_path`."""
    return lambda *words: run("gnt-filter", "--root", tmp_path, *words)


def rule(luxid: FakeLuxid) -> tuple[Any, Any]:
    """Predicates and action of the only rule."""
    (only,) = luxid.rules.values()
    return only["predicates"], only["action"]


@pytest.mark.parametrize(
    ("words", "predicates", "action"),
    [
        (["pause"], [], "PAUSE"),
        (
            ["pause", "--where", "op=run_command & reason=~upgrade"],
            [["opcode", ["==", "OP_ID", "OP_RUN_COMMAND"]], ["reason", ["=~", "reason", "upgrade"]]],
            "PAUSE",
        ),
        (["drain"], [NEWER], "REJECT"),
        (["soft-drain", "--where", "op=OP_X"], [NEWER, ["opcode", ["==", "OP_ID", "OP_X"]]], "PAUSE"),
        (["limit", "3", "--where", "reason=backup"], [["reason", ["==", "reason", "backup"]]], ["RATE_LIMIT", 3]),
        (["add"], [], "CONTINUE"),
        (["add", "--action", "RATE_LIMIT  4"], [], ["RATE_LIMIT", 4]),
        (
            ["add", "--predicates", '[["jobid", ["=", "id", 5]]]', "--action", "ACCEPT"],
            [["jobid", ["=", "id", 5]]],
            "ACCEPT",
        ),
        (["replace", FIRST, "--action", "REJECT"], [], "REJECT"),
    ],
)
def test_a_rule_is_set_and_its_uuid_printed(
    start_luxid: Start, gnt_filter: Filter, words: list[str], predicates: Any, action: Any
) -> None:
    luxid = start_luxid()

    ended = gnt_filter(*words)

    assert ended == Ended(0, f"{FIRST}\n", "")
    assert rule(luxid) == (predicates, action)
    for _, expression in predicates:
        Expression.from_wire(expression)


def test_reason_and_priority_are_passed_on(start_luxid: Start, gnt_filter: Filter) -> None:
    luxid = start_luxid()

    gnt_filter("pause", "--reason", "noon", "--priority", "7")
    gnt_filter("pause")

    first, second = (call for call in luxid.calls if isinstance(call, ReplaceFilter))
    assert (first.uuid, first.priority) == (None, 7)
    assert [entry[:2] for entry in structure(first.reason_trail, list[list[Any]])] == [["gnt:user", "noon"]]
    assert second.reason_trail == ()


def test_a_replaced_rule_keeps_its_uuid(start_luxid: Start, gnt_filter: Filter) -> None:
    luxid = start_luxid()
    gnt_filter("pause")

    ended = gnt_filter("replace", "--action", "ACCEPT", "--where", "id<=5", FIRST)

    assert ended == Ended(0, f"{FIRST}\n", "")
    assert rule(luxid) == ([["jobid", ["<=", "id", 5]]], "ACCEPT")


@pytest.mark.parametrize(
    ("text", "predicates"),
    [
        ("id>5 & id<=9", [["jobid", ["&", [">", "id", 5], ["<=", "id", 9]]]]),
        ("op!=OP_X & duration>5", [["opcode", ["&", ["!=", "OP_ID", "OP_X"], [">", "duration", 5]]]]),
        ("op=~NODE | beparams.maxmem>1", [["opcode", ["|", ["=~", "OP_ID", "NODE"], [">", "beparams.maxmem", 1]]]]),
        (
            "source=gnt:user & reason=x & id>1",
            [
                ["reason", ["&", ["==", "source", "gnt:user"], ["==", "reason", "x"]]],
                ["jobid", [">", "id", 1]],
            ],
        ),
        ("name=~^web & label.team=a", [["terms", ["&", ["=~", "name", "^web"], ["==", "label.team", "a"]]]]),
        ("!(reason=x)", [["reason", ["!", ["==", "reason", "x"]]]]),
    ],
)
def test_a_filter_text_becomes_a_predicate_for_each_subject(text: str, predicates: Any) -> None:
    assert rule_predicates(text) == predicates


def test_subjects_cannot_be_joined_by_or() -> None:
    with pytest.raises(InvalidRequest) as refused:
        rule_predicates("op=OP_X | reason=y")

    assert refused.value.message == (
        "filter: one condition joins opcode and reason, which a rule tests apart; "
        "join them by & only, or make a rule for each"
    )


def job(job_id: int, op_id: str, reason: str = "", status: str = "queued") -> FakeJob:
    return FakeJob(job_id, status, [{"OP_ID": op_id, "reason": [["gnt:user", reason, 1]]}], [op_id[3:]])


def test_a_dry_run_tells_for_which_waiting_jobs_the_rule_would_be(start_luxid: Start, gnt_filter: Filter) -> None:
    luxid = start_luxid(
        job(4, "OP_TEST_DUMMY", "upgrade of web1", "success"),
        job(5, "OP_TEST_DUMMY", "upgrade of web1"),
        job(6, "OP_TEST_DUMMY", "backup"),
        job(7, "OP_TEST_DELAY", "upgrade of web2"),
        job(8, "OP_TEST_DUMMY", "upgrade of web3", "running"),
        job(9, "OP_TEST_DUMMY", "upgrade of web4", "waiting"),
    )
    words = ("pause", "--where", "op=OP_TEST_DUMMY & reason=~upgrade", "--dry-run")

    ended, as_json = gnt_filter(*words), gnt_filter(*words, "--output", "json")
    drained = gnt_filter("drain", "--dry-run")

    assert ended == Ended(
        0,
        "ID  STATUS   SUMMARY\n 5  queued   TEST_DUMMY\n 9  waiting  TEST_DUMMY\n",
        "2 of the jobs that wait now would wait; nothing was changed\n",
    )
    assert as_json == Ended(0, "[5,9]\n", "")
    assert drained == Ended(
        0, "ID  STATUS  SUMMARY\n", "0 of the jobs that wait now would be canceled; nothing was changed\n"
    )
    assert luxid.rules == {}


def test_a_dry_run_knows_the_rules_that_come_before(start_luxid: Start, gnt_filter: Filter) -> None:
    start_luxid(job(5, "OP_TEST_DUMMY"), job(6, "OP_TEST_DELAY"))
    gnt_filter("add", "--action", "ACCEPT", "--where", "op=OP_TEST_DUMMY", "--priority", "1")

    before = gnt_filter("drain", "--dry-run", "--priority", "2")
    behind = gnt_filter("add", "--action", "REJECT", "--priority", "2", "--dry-run", "--output", "json")
    ahead = gnt_filter("add", "--action", "REJECT", "--priority", "0", "--dry-run", "--output", "json")
    instead = gnt_filter("replace", "--action", "REJECT", "--dry-run", "--output", "json", FIRST)

    assert before.out == "ID  STATUS  SUMMARY\n"
    assert [ended.out for ended in (behind, ahead, instead)] == ["[6]\n", "[5,6]\n", "[5,6]\n"]


def test_the_list_is_in_the_order_in_which_rules_are_asked(start_luxid: Start, gnt_filter: Filter) -> None:
    start_luxid(FakeJob(41))
    gnt_filter("pause", "--priority", "50", "--reason", "noon")
    gnt_filter("limit", "2", "--where", "id>1")

    ended = gnt_filter("list", "-o", "uuid,watermark,priority,predicates,action,reason_trail")
    stored = gnt_filter("list", "--no-headers", "-o", "predicates,action", SECOND)
    some = gnt_filter("list", "--no-headers", "--separator", "|", "-v", "-o", "action,nonsense", FIRST)

    assert ended == Ended(
        0,
        "UUID                                  WATERMARK  PRIORITY  PREDICATES  ACTION        REASON_TRAIL\n"
        f"{SECOND}         41        10  id > 1      RATE_LIMIT 2  -\n"
        f"{FIRST}         41        50  all jobs    PAUSE         noon\n",
        "",
    )
    assert stored == Ended(0, '[["jobid",[">","id",1]]]  ["RATE_LIMIT",2]\n', "")
    assert some == Ended(
        14,
        "PAUSE|(unknown)\n",
        "warning: unknown field 'nonsense'; "
        "fields are number, uuid, watermark, priority, predicates, action, reason_trail\n",
    )


def test_a_limit_stands_behind_rules_that_pause(start_luxid: Start, gnt_filter: Filter) -> None:
    luxid = start_luxid()

    for words in (["limit", "2"], ["pause"], ["limit", "3", "--priority", "0"]):
        gnt_filter(*words)

    assert [each.priority for each in luxid.calls if isinstance(each, ReplaceFilter)] == [10, 0, 0]


def test_info_is_six_lines_a_rule(start_luxid: Start, gnt_filter: Filter) -> None:
    start_luxid(FakeJob(41))
    gnt_filter("drain")

    ended, as_json = gnt_filter("info", FIRST), gnt_filter("info", "--output", "json")

    assert ended == Ended(
        0,
        f"UUID: {FIRST}\n"
        "  Watermark: 41\n"
        "  Priority: 0\n"
        '  Predicates: [["jobid",[">","id","watermark"]]]\n'
        "  Action: REJECT\n"
        '  Reason trail: [["luxid","",1]]\n',
        "",
    )
    assert json.loads(as_json.out)[0]["action"] == "REJECT"


def test_rules_that_are_not_there_are_told(start_luxid: Start, gnt_filter: Filter) -> None:
    luxid = start_luxid()
    gnt_filter("drain")
    error = f"error: there is no filter rule '{SECOND}'; list them with 'gnt-filter list'\n"

    shown, listed = gnt_filter("info", SECOND), gnt_filter("list", "--no-headers", SECOND)
    deleted = gnt_filter("delete", SECOND, FIRST)

    assert shown == listed == deleted == Ended(1, "", error)
    assert luxid.rules == {}


def test_as_json_the_rules_that_were_deleted_are_told(start_luxid: Start, gnt_filter: Filter) -> None:
    start_luxid()
    gnt_filter("drain")

    deleted = gnt_filter("delete", SECOND, FIRST, "--output", "json")

    assert (deleted.code, json.loads(deleted.out)) == (1, [FIRST])


def test_a_rule_is_deleted_by_its_number_or_a_beginning(start_luxid: Start, gnt_filter: Filter) -> None:
    luxid = start_luxid()
    gnt_filter("pause", "--priority", "50", "--reason", "noon")
    gnt_filter("limit", "2")

    table = gnt_filter("list").out.splitlines()
    unclear, none = gnt_filter("delete", "0000"), gnt_filter("delete", "3")
    short, told = gnt_filter("delete", "000"), gnt_filter("info", "2")
    left = dict(luxid.rules)
    gone = gnt_filter("delete", "1", SECOND[:36])

    assert [line.split()[:2] for line in table] == [["NUMBER", "UUID"], ["1", SECOND], ["2", FIRST]]
    assert unclear == Ended(1, "", f"error: '0000' begins 2 rules: {SECOND}, {FIRST}; write more of it\n")
    assert none == Ended(1, "", "error: there is no filter rule '3'; list them with 'gnt-filter list'\n")
    assert short.code == 1
    assert told.out.startswith(f"UUID: {FIRST}\n")
    assert set(left) == {FIRST, SECOND}
    assert gone == Ended(0, f"deleted rule {SECOND}: RATE_LIMIT 2\n", "")
    assert set(luxid.rules) == {FIRST}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["limit", "0"], "'0' is not a number of jobs; N is a whole number of at least 1\n"),
        (["limit", "abc"], "'abc' is not a number of jobs; N is a whole number of at least 1\n"),
        (
            ["add", "--action", "FOO"],
            "invalid value for '--action': 'FOO' is not an action; write ACCEPT, PAUSE, REJECT, ",
        ),
        (
            ["add", "--action", "RATE_LIMIT 0"],
            "invalid value for '--action': 'RATE_LIMIT 0' is not an action; write ACC",
        ),
        (["add", "--predicates", "{}"], "'{}' is not a list; write "),
        (["add", "--predicates", "[["], "'[[' is not JSON: "),
        (["pause", "--where", "op="], "filter, character 4: expected a value at the end"),
        (["pause", "--priority", "-1"], "invalid value for '--priority': -1 is not in the range x>=0"),
    ],
)
def test_typing_errors_are_2(start_luxid: Start, gnt_filter: Filter, words: list[str], error: str) -> None:
    luxid = start_luxid()

    ended = gnt_filter(*words)

    assert (ended.code, ended.out) == (2, "")
    assert error in ended.err
    assert luxid.calls == []


def test_a_star_that_stands_for_itself_is_warned_of(start_luxid: Start, gnt_filter: Filter) -> None:
    luxid = start_luxid()

    ended = gnt_filter("pause", "--where", "name=foo*")

    assert ended == Ended(
        0,
        f"{FIRST}\n",
        "warning: '*' stands for itself in name=foo*: = compares whole values; for a pattern write: name =* 'foo*'\n",
    )
    assert rule(luxid)[0] == [["terms", ["==", "name", "foo*"]]]
    assert gnt_filter("pause", "--where", "name =* 'foo*'").err == ""

"""Filter rules: reading, refusing, matching, and the order of the chain (filters design; luxid.md 6; DESIGN 11)."""

from typing import Any

import pytest

from common.errors import InvalidRequest
from common.ids import JobId
from common.objects.filter import Action, ActionKind, FilterRule, RuleCondition, asked_rule
from common.queue.filters import compile_chain, read_rule
from common.queue.jobs import Job, JobOp
from tests.support.filterrules import filter_rule
from tests.support.naive.chain import applying

REPLACE = {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "web1", "early_release": True, "disks": [0, 1]}
CREATE = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "web2", "beparams": {"maxmem": 512}}


def rule(action: Any = "PAUSE", *predicates: Any, uuid: str = "u", priority: int = 0, watermark: int = 5) -> FilterRule:
    return filter_rule(
        watermark=JobId(watermark),
        priority=priority,
        predicates=predicates,
        action=action,
        reason_trail=(),
        uuid=uuid,
    )


def job(*ops: dict[str, Any], job_id: int = 7, reason: str = "spring cleaning") -> Job:
    trail = {"reason": [["gnt:user", reason, 11], ["gnt:opcode:x", f"job={job_id};index=0", 12]]}
    return Job(JobId(job_id), tuple(JobOp({**trail, **op}) for op in ops or (REPLACE,)))


def matches(predicate: list[Any], of: Job, watermark: int = 5) -> bool:
    return applying(compile_chain([rule("PAUSE", predicate, watermark=watermark)]), of) is not None


@pytest.mark.parametrize(
    ("expression", "is_match"),
    [
        (None, True),
        (["==", "id", 7], True),
        (["=", "id", 8], False),
        (["!=", "id", 8], True),
        ([">", "id", "watermark"], True),
        (["<=", "id", "watermark"], False),
        (["&", [">=", "id", 7], ["<", "id", 8]], True),
        (["|", ["==", "id", 1], ["!", ["==", "id", 2]]], True),
        (["!", ["=~", "id", "7"]], False),
        (["!", ["?", "id"]], False),
        (["|", ["=[]", "id", 7], ["==", "id", 7]], False),
    ],
)
def test_a_jobid_predicate_looks_at_the_id(expression: Any, is_match: bool) -> None:
    """A condition that does not fit makes the whole false, also under `!`."""
    assert matches(["jobid", expression], job()) is is_match


def test_the_watermark_is_the_rules_own() -> None:
    assert matches(["jobid", ["<=", "id", "watermark"]], job(job_id=5))
    assert not matches(["jobid", ["<=", "id", "watermark"]], job(job_id=6))


@pytest.mark.parametrize(
    ("expression", "is_match"),
    [
        (["==", "OP_ID", "OP_INSTANCE_REPLACE_DISKS"], True),
        (["==", "OP_ID", "OP_INSTANCE_CREATE"], True),
        (["==", "OP_ID", "OP_NODE_ADD"], False),
        (["=~", "OP_ID", "^OP_INSTANCE_(CREATE|REMOVE)$"], True),
        (["?", "early_release"], True),
        (["=[]", "disks", 1], True),
        (["=[]", "disks", 2], False),
        (["==", "beparams.maxmem", 512], True),
        ([">", "beparams.maxmem", 512], False),
        (["==", "beparams.maxmem.x", 512], False),
        (["&", ["==", "instance_name", "web1"], ["==", "OP_ID", "OP_INSTANCE_CREATE"]], False),
        (["!", ["==", "nosuch", 1]], False),
        # a field that other opcodes have
        (["==", "duration", 1], False),
        (["!", ["==", "duration", 1]], True),
        (["|", ["==", "duration", 1], ["==", "OP_ID", "OP_INSTANCE_CREATE"]], True),
        (["|", ["==", "OP_ID", "OP_INSTANCE_CREATE"], ["==", "duration", 1]], True),
        (["&", ["!", ["?", "disks.x"]], ["!", ["=~", "duration", "1"]]], True),
        (["!=", "beparams.maxmem", "512"], True),
    ],
)
def test_an_opcode_predicate_holds_if_it_does_for_one_opcode(expression: Any, is_match: bool) -> None:
    assert matches(["opcode", expression], job(REPLACE, CREATE)) is is_match


@pytest.mark.parametrize(
    ("expression", "is_match"),
    [
        (["=~", "reason", "cleaning"], True),
        (["=~", "reason", "^cleaning"], False),
        (["==", "source", "gnt:user"], True),
        (["&", ["==", "source", "gnt:opcode:x"], ["==", "reason", "spring cleaning"]], False),
        ([">", "timestamp", 11], True),
        ([">", "timestamp", 12], False),
    ],
)
def test_a_reason_predicate_holds_if_it_does_for_one_entry(expression: Any, is_match: bool) -> None:
    """DIFF-31 is the real daemon's: there `=~` never matched."""
    assert matches(["reason", expression], job()) is is_match


def test_a_rule_matches_if_all_its_predicates_do() -> None:
    both = rule("PAUSE", ["jobid", [">", "id", 5]], ["opcode", ["==", "OP_ID", "OP_INSTANCE_CREATE"]])

    assert applying(compile_chain([both]), job(CREATE)) is not None
    assert applying(compile_chain([both]), job(REPLACE)) is None
    assert applying(compile_chain([rule("PAUSE")]), job()) is not None


def test_rules_are_asked_by_priority_then_watermark_then_uuid() -> None:
    rules = [
        rule(uuid="d", priority=1, watermark=1),
        rule(uuid="c", watermark=9),
        rule(uuid="b", watermark=2),
        rule(uuid="a", watermark=9),
    ]

    assert [each.rule.uuid for each in compile_chain(rules)] == ["b", "a", "c", "d"]


def test_the_first_match_that_does_not_say_continue_applies() -> None:
    chain = compile_chain([rule("CONTINUE", uuid="1"), rule("REJECT", uuid="2"), rule("ACCEPT", uuid="3")])

    found = applying(chain, job())

    assert found is not None
    assert found.rule.uuid == "2"
    assert found.action == Action(ActionKind.REJECT)
    assert applying((), job()) is None


@pytest.mark.parametrize(
    ("predicates", "said"),
    [
        ([["user", None]], "predicates[0][0]: unknown predicate 'user'; known are jobid, opcode, reason, terms"),
        ([["jobid", None], ["jobid"]], "predicates[1]: expected [name, expression]"),
        ([["jobid", ["==", "number", 5]]], "predicates[0] (jobid): unknown field 'number'; known are id"),
        ([["jobid", ["==", "id", "mark"]]], "job ids compare with numbers or 'watermark', got 'mark'"),
        ([["reason", ["==", "why", "x"]]], "predicates[0] (reason): unknown field 'why'; known are source, reason"),
        ([["opcode", ["==", "OPID", "x"]]], "predicates[0] (opcode): no opcode has a field 'OPID'"),
        ([["opcode", ["~~", "OP_ID", "x"]]], "predicates[0] (opcode): filter $: unknown operator '~~'"),
        ([["opcode", ["&", None, ["=~", "OP_ID", "("]]]], "predicates[0] (opcode): filter $[2][2]: bad regular"),
    ],
)
def test_a_bad_predicate_is_refused_with_place_and_reason(predicates: list[Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        read_rule(asked_rule("PAUSE", predicates))

    assert said in error.value.message


@pytest.mark.parametrize(
    ("action", "priority", "said"),
    [
        (["RATE_LIMIT", 0], 0, "action: RATE_LIMIT must be greater than 0, got 0; PAUSE lets none run"),
        (["RATE_LIMIT", True], 0, "action: expected ACCEPT"),
        ("pause", 0, "action: expected ACCEPT, PAUSE, REJECT, CONTINUE or ['RATE_LIMIT', n], got 'pause'"),
        ("PAUSE", -1, "expected a priority of at least 0, got -1"),
    ],
)
def test_a_bad_action_or_priority_is_refused(action: Any, priority: int, said: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        asked_rule(action, [], priority=priority)

    assert said in error.value.message


def test_a_rule_that_is_set_has_its_expressions_in_normal_form() -> None:
    made = read_rule(rule("PAUSE", ["jobid", ["!=", "id", 5]], ["opcode", ["=", "OP_ID", "OP_NODE_ADD"]]))

    assert made.predicates == (
        RuleCondition("jobid", ["!", ["==", "id", 5]]),
        RuleCondition("opcode", ["==", "OP_ID", "OP_NODE_ADD"]),
    )


def test_a_stored_rule_with_a_field_of_a_lost_plug_in_matches_nothing_and_harms_no_other() -> None:
    lost = rule("REJECT", ["opcode", ["!=", "lost_parameter", 5]], uuid="a")

    found = applying(compile_chain([lost, rule("PAUSE", uuid="b")]), job())

    assert found is not None
    assert found.rule.uuid == "b"


def test_a_stored_rule_that_cannot_be_read_is_named() -> None:
    with pytest.raises(
        InvalidRequest, match=r"filter rule bad: predicates\[0\] \(reason\): filter \$\[2\]: bad regular"
    ):
        compile_chain([rule("PAUSE", ["reason", ["=~", "reason", "("]], uuid="bad")])

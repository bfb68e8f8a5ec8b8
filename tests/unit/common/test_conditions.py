"""Tags of contents, and conditions on them (RFC 9110, 8.8.3, 13.1)."""

import attrs
import pytest

from common.conditions import Condition, check_condition, tag_of
from common.errors import PreconditionFailed
from common.ids import JobId
from common.objects.filter import rule_tag
from common.resources import Resource, Unit
from common.schedules.schedule import RunState, ScheduleRun
from common.wire import structure, unstructure
from protocol.rapid.cluster import Filter, FilterLoad
from tests.support.filterrules import filter_rule
from tests.support.keptvalues import NIGHTLY


def test_equal_contents_have_equal_tags_in_any_order() -> None:
    assert tag_of({"a": 1, "b": [1, {"d": None, "c": "\ud800"}]}) == tag_of(
        {"b": (1, {"c": "\ud800", "d": None}), "a": 1}
    )
    assert len({tag_of(value) for value in (1, "1", [1], None, {"1": 1}, 2**70, 1.5)}) == 7


def test_what_a_user_sets_of_a_schedule_is_in_its_tag_and_its_runs_are_not() -> None:
    others = {
        "name": "x",
        "cron": "@daily",
        "zone": "UTC",
        "every_s": 5.0,
        "job": (),
        "overlap": "allow",
        "missed": "skip",
        "deadline_s": 1.0,
        "spread_s": 1.0,
        "is_paused": not NIGHTLY.is_paused,
        "uuid": "x",
        "created_at": 2.0,
    }
    wire = unstructure(NIGHTLY)
    assert isinstance(wire, dict)
    for name, value in others.items():
        assert structure({**wire, name: value}, type(NIGHTLY)).tag != NIGHTLY.tag, name
    run = ScheduleRun(1.0, RunState.SUBMITTED, JobId(1))
    assert attrs.evolve(NIGHTLY, runs=(run,), settled_at=7.0, changed_at=7.0).tag == NIGHTLY.tag


def test_what_is_shown_beside_a_rule_is_not_in_its_tag() -> None:
    rule = filter_rule(watermark=JobId(0), priority=1, predicates=(), action="PAUSE", reason_trail=(), uuid="u")
    shown = Filter(
        **{field.name: getattr(rule, field.name) for field in attrs.fields(type(rule))}, load=FilterLoad(1, 2, 3)
    )

    assert rule_tag(shown) == rule_tag(rule)
    assert rule_tag(attrs.evolve(rule, priority=2)) != rule_tag(rule)
    assert Resource("", "a", 1).tag != Resource("", "a", 1, Unit.BYTES).tag


@pytest.mark.parametrize(
    ("condition", "tags"),
    [
        (Condition(), ["a", "b", None]),
        (Condition(tags=("a",)), ["a"]),
        (Condition(tags=()), []),
        (Condition(is_there=True), ["a", "b"]),
        (Condition(is_there=False), [None]),
        (Condition(other_than=("a",)), ["b", None]),
    ],
)
def test_a_condition_holds_for_these_tags(condition: Condition, tags: list[str | None]) -> None:
    assert [tag for tag in ("a", "b", None) if condition.holds(tag)] == tags


def test_a_refusal_says_the_tag_and_what_to_do() -> None:
    cases = (
        (Condition(tags=("a",)), "b", "its tag is 'b' now; read it again"),
        (Condition(tags=("a",)), None, "there is no schedule 's'"),
        (Condition(is_there=False), "b", "is there already, with the tag 'b'"),
    )
    for condition, tag, words in cases:
        with pytest.raises(PreconditionFailed, match=words) as refused:
            check_condition(condition, "schedule 's'", tag)
        assert refused.value.fields == {"current_tag": tag}
    check_condition(None, "schedule 's'", None)

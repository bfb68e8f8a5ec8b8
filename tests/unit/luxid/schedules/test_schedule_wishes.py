"""What a schedule may be: names, defaults, and what its job must not have (DESIGN section 16)."""

from typing import Any

import attrs
import pytest

from common.errors import InvalidRequest
from common.queue.terms import Hold, JobTerms, terms_entry
from common.schedules.schedule import Missed, Overlap
from daemons.luxid.core.schedules import ScheduleOwner, changed_schedule, new_schedule, paused, run_job
from protocol.luxi.queue import ScheduleRequest

NOW = 1_790_000_000.5
ANN = ScheduleOwner(1000, "ann")
OP: dict[str, object] = {"OP_ID": "OP_TEST_DELAY", "duration": 0}


def wish(**parts: Any) -> ScheduleRequest:
    return ScheduleRequest(**{"name": "s", "cron": "@daily", "job": (OP,), **parts})


def with_terms(terms: JobTerms) -> tuple[dict[str, object], ...]:
    return ({**OP, "reason": [["gnt:user", "x", 1], terms_entry(terms, 1).to_wire()]},)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"name": "a b"}, "no schedule can be named 'a b'"),
        ({"name": ""}, "no schedule can be named ''"),
        ({"job": None}, "schedule 's' needs a job"),
        ({"job": ()}, "its job needs at least one opcode"),
        ({"cron": None}, "either cron words or an interval"),
        ({"every_s": 60.0}, "either cron words or an interval"),
        ({"cron": None, "every_s": 1.5}, "an interval has whole seconds"),
        ({"cron": None, "every_s": 1e10}, "an interval has whole seconds"),
        ({"spread_s": -1.0}, "the spread of a schedule is 0 to"),
        ({"deadline_s": 1e9}, "the deadline of a schedule is 0 to"),
        ({"zone": "Mars/Olympus"}, "unknown time zone"),
        ({"job": ({**OP, "depends": [[1, []]]},)}, "its job cannot depend on other jobs"),
        ({"job": ({**OP, "depend": [[1, []]]},)}, "its job cannot depend on other jobs"),
        ({"job": with_terms(JobTerms(begin_at=1.0))}, "its job cannot begin later or be on hold"),
        ({"job": with_terms(JobTerms(hold=Hold()))}, "its job cannot begin later or be on hold"),
    ],
)
def test_what_cannot_be_is_refused_with_the_part(parts: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        new_schedule(wish(**parts), "u", ANN, NOW)


@pytest.mark.parametrize(
    ("parts", "missed"),
    [({}, Missed.ONCE), ({"cron": "*/15 * * * *"}, Missed.SKIP), ({"cron": "@hourly"}, Missed.ONCE)],
)
def test_short_periods_make_up_for_nothing_by_default(parts: dict[str, Any], missed: Missed) -> None:
    schedule = new_schedule(wish(**parts), "u", ANN, NOW)

    assert (schedule.missed, schedule.overlap, schedule.user) == (missed, Overlap.SKIP, "ann")
    assert (schedule.created_at, schedule.settled_at) == (NOW - 0.5, NOW)


def test_only_what_is_wished_for_changes_and_only_new_times_settle() -> None:
    schedule = attrs.evolve(new_schedule(wish(), "u", ANN, NOW), settled_at=NOW - 5)

    other = changed_schedule(schedule, ScheduleRequest(name="s", overlap=Overlap.ALLOW), NOW)
    later = changed_schedule(schedule, ScheduleRequest(name="s", every_s=60.0), NOW)

    assert other == attrs.evolve(schedule, overlap=Overlap.ALLOW, changed_at=NOW)
    assert (later.cron, later.every_s, later.settled_at) == ("", 60.0, NOW)


def test_a_pause_is_kept_and_its_end_settles_what_was_missed() -> None:
    schedule = attrs.evolve(new_schedule(wish(), "u", ANN, NOW), settled_at=NOW - 5)

    resting = paused(schedule, NOW, is_paused=True)

    assert paused(resting, NOW, is_paused=True) is resting
    assert (resting.is_paused, resting.settled_at) == (True, NOW - 5)
    assert paused(resting, NOW + 9, is_paused=False).settled_at == NOW + 9


def test_the_job_of_a_run_has_its_name_and_label_beside_its_own_terms() -> None:
    schedule = new_schedule(wish(job=(*with_terms(JobTerms("x", {"team": "web"})), OP)), "u", ANN, NOW)

    first, second = run_job(schedule, NOW, ())

    assert first["reason"] == [
        ["gnt:user", "x", 1],
        ["gantry:terms", '{"name":"s","labels":{"team":"web","schedule":"s"}}', int(NOW * 1e9)],
    ]
    assert (second, first.get("depends")) == (OP, None)

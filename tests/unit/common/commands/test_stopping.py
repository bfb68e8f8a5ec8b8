"""What a supervisor does next. DESIGN section 16; everyday.md j, "kill order" and "left-overs"."""

import pytest

from common.commands.spec import Leave
from common.commands.stopping import (
    LONGEST_ROUND_S,
    MOMENT_S,
    Course,
    Seen,
    StopPhase,
    StopStep,
    advance,
    begin,
)

RUNNING = Seen(is_stop_asked=False, has_command_ended=False, is_anything_left=True)
STOP = Seen(is_stop_asked=True, has_command_ended=False, is_anything_left=True)
LEFT = Seen(is_stop_asked=False, has_command_ended=True, is_anything_left=True)
GONE = Seen(is_stop_asked=False, has_command_ended=True, is_anything_left=False)


def started(leave: Leave = Leave.END, timeout_at: float | None = None) -> Course:
    return begin(leave, 10.0, timeout_at)


@pytest.mark.parametrize("leave", Leave)
def test_a_command_that_leaves_nothing_is_over_at_once(leave: Leave) -> None:
    assert advance(started(leave), 1.0, GONE)[1] is StopStep.OVER


@pytest.mark.parametrize("leave", Leave)
def test_a_stop_is_term_then_kill_after_the_grace_time_and_again_until_nothing_is_left(leave: Leave) -> None:
    course, step = advance(started(leave), 5.0, STOP)
    assert (step, course.look_at) == (StopStep.TERM, 15.0)
    # what ends in time, and what does not
    assert advance(course, 6.0, GONE)[1] is StopStep.OVER
    assert advance(course, 14.9, LEFT)[1] is StopStep.WAIT

    pauses = []
    now = 15.0
    for _ in range(12):
        course, step = advance(course, now, LEFT)
        assert step is StopStep.KILL
        assert course.look_at is not None
        pauses.append(course.look_at - now)
        assert advance(course, course.look_at - 0.001, LEFT)[1] is StopStep.WAIT
        now = course.look_at

    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(LONGEST_ROUND_S)
    assert advance(course, now, GONE)[1] is StopStep.OVER


def test_term_is_sent_once_however_often_a_stop_is_asked() -> None:
    course, _ = advance(started(), 5.0, STOP)

    assert advance(course, 5.1, STOP)[1] is StopStep.WAIT


def test_a_time_out_stops_it_and_is_told() -> None:
    course = started(timeout_at=30.0)
    assert advance(course, 29.9, RUNNING)[1] is StopStep.WAIT

    course, step = advance(course, 30.0, RUNNING)

    assert (step, course.timed_out) == (StopStep.TERM, True)


def test_a_command_that_ended_just_before_its_time_was_over_has_not_timed_out() -> None:
    course, step = advance(started(timeout_at=30.0), 30.1, LEFT)

    assert (step, course.phase, course.timed_out) == (StopStep.WAIT, StopPhase.LINGERING, False)


def test_what_is_left_has_a_moment_and_is_then_stopped() -> None:
    course, step = advance(started(), 5.0, LEFT)
    assert (step, course.look_at) == (StopStep.WAIT, 5.0 + MOMENT_S)
    assert advance(course, 5.01, GONE)[1] is StopStep.OVER

    course, step = advance(course, 5.0 + MOMENT_S, LEFT)

    assert (step, course.timed_out) == (StopStep.TERM, False)


def test_what_is_detached_is_left_at_once() -> None:
    assert advance(started(Leave.DETACH), 5.0, LEFT)[1] is StopStep.OVER


def test_what_keeps_the_locks_is_left_until_a_stop_is_asked_and_has_no_time_out() -> None:
    course, step = advance(started(Leave.KEEP_LOCKS, timeout_at=30.0), 5.0, LEFT)
    assert (step, course.look_at) == (StopStep.WAIT, None)
    assert advance(course, 1e9, LEFT)[1] is StopStep.WAIT

    seen = Seen(is_stop_asked=True, has_command_ended=True, is_anything_left=True)

    assert advance(course, 6.0, seen)[1] is StopStep.TERM
    assert advance(course, 6.0, GONE)[1] is StopStep.OVER

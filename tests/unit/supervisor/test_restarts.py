"""When a daemon is started again, and with which pause. Source: `daemons/supervisor/core/restarts.py`, the theory."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemons.supervisor.core.restarts import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    READY_TIMEOUT_S,
    TRANSITIONS,
    WELL_AFTER_S,
    DaemonEvent,
    DaemonPhase,
    KeptDaemon,
    step,
)

READY_AT_100 = KeptDaemon(DaemonPhase.READY, 100.0)
# one of these happens to a daemon that is to be kept: how long it takes, and what
LIVES = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 2 * WELL_AFTER_S), st.just(WELL_AFTER_S)),
        st.sampled_from([DaemonEvent.READY, DaemonEvent.ENDED, DaemonEvent.FAILED]),
    ),
    max_size=40,
)


def after(keeping: KeptDaemon, *events: DaemonEvent, at: float = 0.0) -> KeptDaemon:
    for event in events:
        keeping = step(keeping, event, at)
    return keeping


def test_the_first_start_that_fails_is_given_up() -> None:
    assert after(KeptDaemon(), DaemonEvent.FAILED).phase is DaemonPhase.GIVEN_UP
    assert after(KeptDaemon(), DaemonEvent.LAUNCHED, DaemonEvent.FAILED).phase is DaemonPhase.GIVEN_UP


def test_a_daemon_that_the_others_can_do_without_is_tried_again_from_its_first_failure_on() -> None:
    lacking = after(KeptDaemon(is_needed=False), DaemonEvent.LAUNCHED, DaemonEvent.FAILED)

    assert (lacking.phase, lacking.pause_s) == (DaemonPhase.PAUSING, FIRST_PAUSE_S)
    again = after(lacking, DaemonEvent.LAUNCHED, DaemonEvent.FAILED)
    assert (again.phase, again.pause_s, again.is_needed) == (DaemonPhase.PAUSING, 2 * FIRST_PAUSE_S, False)


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(DaemonPhase, DaemonEvent)))
def test_what_the_table_does_not_name_cannot_happen(phase: DaemonPhase, event: DaemonEvent) -> None:
    keeping = KeptDaemon(phase, 5.0)

    if event in TRANSITIONS[phase]:
        assert step(keeping, event, 6.0).phase is TRANSITIONS[phase][event]
    else:
        with pytest.raises(KeyError):
            step(keeping, event, 6.0)


def test_a_daemon_that_ends_is_started_again_at_once() -> None:
    ended = step(READY_AT_100, DaemonEvent.ENDED, 101.0)

    assert (ended.pause_s, ended.due_at) == (0.0, 101.0)
    assert ended.is_due(101.0)


def test_one_that_soon_ends_again_is_started_after_pauses_that_double_up_to_the_longest() -> None:
    keeping, pauses = READY_AT_100, []
    for _ in range(9):
        keeping = step(keeping, DaemonEvent.ENDED, keeping.since + 1)
        pauses.append(keeping.pause_s)
        keeping = after(keeping, DaemonEvent.LAUNCHED, DaemonEvent.READY, at=keeping.since)

    assert pauses == [0, 0.5, 1, 2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_a_restart_that_fails_is_never_tried_again_at_once() -> None:
    keeping, pauses = step(READY_AT_100, DaemonEvent.ENDED, 101.0), []
    for _ in range(4):
        keeping = after(keeping, DaemonEvent.LAUNCHED, DaemonEvent.FAILED, at=keeping.since)
        pauses.append(keeping.pause_s)

    assert pauses == [0.5, 1, 2, 4]


def test_a_daemon_that_was_well_for_a_while_is_started_again_at_once() -> None:
    troubled = KeptDaemon(DaemonPhase.READY, 0.0, pause_s=16.0, next_pause_s=LONGEST_PAUSE_S)

    assert step(troubled, DaemonEvent.ENDED, WELL_AFTER_S).pause_s == LONGEST_PAUSE_S
    assert step(troubled, DaemonEvent.ENDED, WELL_AFTER_S + 1).pause_s == 0.0


@pytest.mark.parametrize("phase", [DaemonPhase.FIRST_START, DaemonPhase.RESTARTING])
def test_a_start_may_take_so_long_and_no_longer(phase: DaemonPhase) -> None:
    starting = KeptDaemon(phase, 7.0)

    assert starting.due_at == 7.0 + READY_TIMEOUT_S
    assert not starting.is_due(7.0 + READY_TIMEOUT_S - 0.1)


def test_nothing_is_due_of_a_daemon_that_is_ready() -> None:
    assert READY_AT_100.due_at is None
    assert not READY_AT_100.is_due(1e9)


@given(LIVES)
def test_the_pauses_are_those_of_a_twin_that_counts_the_ends_since_the_daemon_was_last_well(
    life: list[tuple[float, DaemonEvent]],
) -> None:
    now, troubles = 0.0, 0
    keeping = after(KeptDaemon(), DaemonEvent.LAUNCHED, DaemonEvent.READY)
    for took_s, event in life:
        if event not in TRANSITIONS[keeping.phase]:
            continue
        began, now = now, now + took_s
        keeping = step(keeping, event, now)
        if keeping.phase is not DaemonPhase.PAUSING:
            continue
        if event is DaemonEvent.ENDED and now - began > WELL_AFTER_S:
            troubles = 0
        assert keeping.pause_s == (min(FIRST_PAUSE_S * 2 ** (troubles - 1), LONGEST_PAUSE_S) if troubles else 0)
        troubles += 1
        now += keeping.pause_s
        keeping = step(keeping, DaemonEvent.LAUNCHED, now)

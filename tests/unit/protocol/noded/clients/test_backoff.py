"""Pauses of silent nodes: they double up to a minute, and any sign of life ends them."""

from protocol.noded.call import Failed, FailureKind, Replied, Skipped
from protocol.noded.clients.judging import LONGEST_PAUSE_S, BackOff

LOST = Failed(FailureKind.LOST, "gone")


def _failed(times: int) -> BackOff:
    state, now = BackOff(), 100.0
    for _ in range(times):
        state = state.after("a", LOST, now, now)
        now += 1000
    return state


def test_a_node_that_never_failed_may_be_asked() -> None:
    assert BackOff().pause("a", 0.0) is None


def test_a_pause_doubles_with_each_failure_up_to_a_minute() -> None:
    lengths = []
    for times in range(1, 9):
        silence = _failed(times).silences["a"]
        lengths.append(silence.until - silence.since)

    assert lengths == [1, 2, 4, 8, 16, 32, 60, 60]
    assert _failed(2000).silences["a"].until - _failed(2000).silences["a"].since == LONGEST_PAUSE_S


def test_a_pause_is_over_at_its_end_and_concerns_its_node_alone() -> None:
    state = _failed(1)

    assert state.pause("a", 100.9) == state.silences["a"]
    assert state.pause("a", 101.0) is None
    assert state.pause("b", 100.5) is None


def test_calls_that_fail_together_count_once() -> None:
    together = BackOff().after("a", LOST, 100.0, 105.0).after("a", LOST, 101.0, 105.1)
    in_turn = together.after("a", LOST, 105.0, 105.2)

    assert together.silences["a"].failures == 1
    assert in_turn.silences["a"].failures == 2


def test_a_sign_of_life_ends_the_silence() -> None:
    signs = (Replied(1), Failed(FailureKind.REFUSED, "no"), Failed(FailureKind.GARBLED, "?"))

    assert [_failed(3).after("a", sign, 5000.0, 5000.0).silences for sign in signs] == [{}, {}, {}]


def test_what_was_not_sent_changes_nothing() -> None:
    state = _failed(3)
    others = (Skipped(), Failed(FailureKind.PAUSED, ""), Failed(FailureKind.UNSENT, ""))

    assert all(state.after("a", outcome, 5000.0, 5000.0) is state for outcome in others)
    assert all(BackOff().after("a", outcome, 0.0, 0.0).silences == {} for outcome in others)

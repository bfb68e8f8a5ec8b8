"""When a call is sent again."""

import pytest

from protocol.rapid.clients.replies import FIRST_PAUSE_S, LONGEST_PAUSE_S, Failure, next_pause

_NEVER_SENT = Failure(may_have_arrived=False)
_PERHAPS = Failure(may_have_arrived=True)


@pytest.mark.parametrize("is_repeatable", [True, False])
def test_a_call_that_did_not_arrive_is_sent_again(is_repeatable: bool) -> None:
    assert next_pause(_NEVER_SENT, 1, 0, 10, 1.0, is_repeatable=is_repeatable) == FIRST_PAUSE_S


def test_a_change_that_may_have_arrived_is_not_repeated() -> None:
    assert next_pause(_PERHAPS, 1, 0, 10, 1.0, is_repeatable=False) is None
    assert next_pause(_PERHAPS, 1, 0, 10, 1.0, is_repeatable=True) is not None


def test_nothing_is_tried_again_in_vain() -> None:
    assert next_pause(None, 1, 0, 10, 1.0, is_repeatable=True) is None


def test_pauses_grow_to_a_bound_and_end_with_the_patience() -> None:
    pauses = [next_pause(_NEVER_SENT, attempt, 0, 100, 1.0, is_repeatable=True) for attempt in range(1, 30)]

    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert next_pause(_NEVER_SENT, 9, 99, 100, 1.0, is_repeatable=True) is None


def test_a_server_says_when_it_wants_to_be_asked_again() -> None:
    busy = Failure(may_have_arrived=True, retry_after_s=5)

    assert next_pause(busy, 1, 0, 10, 0.0, is_repeatable=True) == 5
    assert next_pause(busy, 1, 6, 10, 0.0, is_repeatable=True) is None

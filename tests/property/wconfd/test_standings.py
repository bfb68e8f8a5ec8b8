"""Where requests for locks stand: the table of `requests` tells all that happens, and nothing else."""

import random

from common.errors import LockRuleViolation
from common.locks import LockMode, LockRequest
from daemons.wconfd.core.locks import waiting
from daemons.wconfd.core.locks.fairness import STANDINGS, RequestStatus
from daemons.wconfd.core.locks.waiting import LockState
from tests.support.naive.lock_strategies import LOCKS, OWNERS

STEPS = 20_000
MAX_BYPASS = 1


def test_every_step_of_a_request_is_in_the_table_and_every_row_of_the_table_happens() -> None:
    draw = random.Random(0)
    state = LockState.fair(MAX_BYPASS)
    seen: set[tuple[RequestStatus, RequestStatus]] = set()
    for _ in range(STEPS):
        who = draw.choice(OWNERS)
        try:
            if draw.random() < 0.3:
                change = waiting.free_all(state, who)
            else:
                wanted = [LockRequest(draw.choice(LOCKS), draw.choice(tuple(LockMode)))]
                change = waiting.update_or_queue(state, who, draw.choice((0, 1)), wanted)
        except LockRuleViolation:
            continue
        for owner in OWNERS:
            before, after = state.standing_of(owner), change.state.standing_of(owner)
            if before is RequestStatus.NONE and after is not RequestStatus.NONE:
                assert owner == who
                assert change.is_queued
            elif before is not RequestStatus.NONE and after is RequestStatus.NONE:
                assert owner == who or owner in change.granted
            elif before is not after:
                assert state.pending_of(owner) == change.state.pending_of(owner)
            if before is not after:
                seen.add((before, after))
        state = change.state

    told = {(before, after) for before, row in STANDINGS.items() for after in row.values() if before is not after}
    assert seen == told

"""A clock that jumps ahead removes nothing (everyday.md j: the clock)."""

import time

import pytest

from daemons.luxid import retention
from daemons.luxid.retention import ClockJumps

DAY = 86_400.0


class _Times:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.up = 1e9, 100.0
        monkeypatch.setattr(time, "time", lambda: self.wall)
        monkeypatch.setattr(retention, "boottime", lambda: self.up)

    def passes(self, seconds: float, jump: float = 0.0) -> None:
        self.wall += seconds + jump
        self.up += seconds


def test_ages_are_doubted_for_a_day_after_a_jump_or_until_the_clock_is_right_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = _Times(monkeypatch)
    clock = ClockJumps()

    # an hour, a month of sleep, a small correction
    for seconds, jump in ((3600, 0), (30 * DAY, 0), (3600, 600)):
        times.passes(seconds, jump)
        assert (clock.has_jumped(), clock.is_doubted) == (False, False)

    times.passes(3600, 365 * DAY)
    assert (clock.has_jumped(), clock.is_doubted) == (True, True)
    times.passes(3600)
    assert (clock.has_jumped(), clock.is_doubted) == (False, True)
    times.passes(3600, -365 * DAY)
    assert (clock.has_jumped(), clock.is_doubted) == (False, False)

    times.passes(3600, 2 * DAY)
    assert clock.has_jumped()
    times.passes(DAY + 1)
    assert (clock.has_jumped(), clock.is_doubted) == (False, False)

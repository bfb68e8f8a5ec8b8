"""Filters of ended jobs, as people type them (DESIGN section 16)."""

from datetime import UTC

import pytest

from common.errors import InvalidRequest
from common.words.filters.jobfilter import past_filter
from common.words.times import seconds_of

# 2026-11-22 12:00 UTC, a Sunday
NOON = 1_795_348_800.0
DAY = 86_400


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("end > yesterday", [">", "end", int(NOON) - DAY // 2 - DAY]),
        ("start_ts <= '2h ago'", ["<=", "start", int(NOON) - 7200]),
        # the past is meant
        ("received < monday", ["<", "received", int(NOON) - DAY // 2 - 6 * DAY]),
        ("end > 1790000000", [">", "end", 1_790_000_000]),
        ("wait > 10m & runtime < 1.5h", ["&", [">", "wait", 600], ["<", "run", 5400]]),
        ("status=failed", ["==", "status", "error"]),
        ("!(exit=3)", ["!", ["==", "exit_code", 3]]),
        # a name of digits is a text
        ("name=2026 | label.team=7", ["|", ["==", "name", "2026"], ["==", "label.team", "7"]]),
        ("tries > 1", [">", "tries", 1]),
    ],
)
def test_times_durations_and_states_are_read(text: str, expression: object) -> None:
    assert past_filter(text, NOON, UTC) == expression


@pytest.mark.parametrize("text", ["end > soonish", "wait > long", "status=running", "run > -5m"])
def test_what_is_no_time_or_state_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        past_filter(text, NOON, UTC)


def test_durations() -> None:
    assert [seconds_of(text) for text in ("90", "90s", "1.5m", "2h", "1d", "1w")] == [90, 90, 90, 7200, 86400, 604800]
    assert [seconds_of(text) for text in ("", "m", "-1m", "1e3", "inf", "1.2.3", "²")] == [None] * 7
    assert [seconds_of("9" * digits + "w") is None for digits in (300, 308, 400)] == [False, True, True]

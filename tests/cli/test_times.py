"""Durations as they are shown and typed."""

import click
import pytest

from cli.options import DURATION
from common.words.times import duration, precise_clock


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0s"),
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (3599.6, "1h00m"),
        (7500, "2h05m"),
        (86399.9, "1d00h"),
        (100 * 86400, "100d00h"),
    ],
)
def test_a_duration_is_shown_by_two_figures(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5m", 90), ("2h", 7200), ("7d", 604800), ("1w", 604800), ("0", 0)]
)
def test_a_typed_duration_is_in_seconds(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "nan", "inf", "5x", "1h30m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration"):
        DURATION.convert(text, None, None)


def test_an_instant_is_exact_to_the_microsecond() -> None:
    assert precise_clock(1_700_000_000 + 15 / 1e6).endswith(".000015")

"""Instants as people write them. Source: everyday.md c; DESIGN section 16."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from common.errors import InvalidRequest
from common.words.instants import Toward, parse_instant

ATHENS = ZoneInfo("Europe/Athens")
# a Sunday
NOW = datetime(2026, 11, 22, 15, 30, tzinfo=ATHENS).timestamp()


def shown(text: str, toward: Toward = Toward.FUTURE) -> str:
    return datetime.fromtimestamp(parse_instant(text, NOW, ATHENS, toward), ATHENS).isoformat()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-22T15:30:00+02:00"),
        ("in 3h", "2026-11-22T18:30:00+02:00"),
        ("+2h", "2026-11-22T17:30:00+02:00"),
        ("in 1h 30m", "2026-11-22T17:00:00+02:00"),
        ("in 2 days", "2026-11-24T15:30:00+02:00"),
        ("2h ago", "2026-11-22T13:30:00+02:00"),
        ("90 minutes ago", "2026-11-22T14:00:00+02:00"),
        ("3h", "2026-11-22T18:30:00+02:00"),
        ("today", "2026-11-22T00:00:00+02:00"),
        ("today 14:00", "2026-11-22T14:00:00+02:00"),
        ("Tomorrow  02:00", "2026-11-23T02:00:00+02:00"),
        ("tomorrow at 2am", "2026-11-23T02:00:00+02:00"),
        ("yesterday", "2026-11-21T00:00:00+02:00"),
        ("yesterday noon", "2026-11-21T12:00:00+02:00"),
        ("14:00", "2026-11-23T14:00:00+02:00"),
        ("16:00", "2026-11-22T16:00:00+02:00"),
        ("16:00Z", "2026-11-22T18:00:00+02:00"),
        ("12pm", "2026-11-23T12:00:00+02:00"),
        ("12am", "2026-11-23T00:00:00+02:00"),
        ("midnight", "2026-11-23T00:00:00+02:00"),
        ("mon", "2026-11-23T00:00:00+02:00"),
        ("sunday 15:00", "2026-11-29T15:00:00+02:00"),
        ("sunday 16:00", "2026-11-22T16:00:00+02:00"),
        ("next fri 9:30", "2026-11-27T09:30:00+02:00"),
        ("last sunday", "2026-11-22T00:00:00+02:00"),
        ("2026-12-01", "2026-12-01T00:00:00+02:00"),
        ("2026-12-01 02:00", "2026-12-01T02:00:00+02:00"),
        ("2026-12-01T02:00:30", "2026-12-01T02:00:30+02:00"),
        ("2026-12-01T02:00Z", "2026-12-01T04:00:00+02:00"),
        ("2026-12-01 02:00:00 UTC", "2026-12-01T04:00:00+02:00"),
        ("2026-12-01T02:00-05:00", "2026-12-01T09:00:00+02:00"),
        ("2026-12-01T02:00+0530", "2026-11-30T22:30:00+02:00"),
        ("@1790000000", "2026-09-21T17:13:20+03:00"),
        # clocks go from 03:00 to 04:00: the end of the gap
        ("2027-03-28 03:30", "2027-03-28T04:00:00+03:00"),
        # clocks go from 04:00 to 03:00: the first of the two
        ("2026-10-25 03:30", "2026-10-25T03:30:00+03:00"),
    ],
)  # fmt: skip
def test_an_instant_is_read_as_people_mean_it(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("14:00", "2026-11-22T14:00:00+02:00"),
        ("16:00", "2026-11-21T16:00:00+02:00"),
        ("monday", "2026-11-16T00:00:00+02:00"),
        ("sunday", "2026-11-22T00:00:00+02:00"),
        ("next monday", "2026-11-23T00:00:00+02:00"),
        ("3h", "2026-11-22T12:30:00+02:00"),
        ("1h 30m", "2026-11-22T14:00:00+02:00"),
        ("2 days", "2026-11-20T15:30:00+02:00"),
        ("in 1h", "2026-11-22T16:30:00+02:00"),
    ],
)
def test_toward_the_past_the_latest_one_is_meant(text: str, expected: str) -> None:
    assert shown(text, Toward.PAST) == expected


@pytest.mark.parametrize(
    "text",
    ["", "soon", "25:00", "13pm", "0am", "14", "2026-02-30", "2026-1-1", "in", "ago", "in 3", "3", "tomorrow x", "-2h",
     "2026-12-01 02:00+25:00", "next", "next tomorrow", "mo", "@", "tomorrow  at", "2026-12-0"],
)  # fmt: skip
def test_what_is_no_instant_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"is not a time; for example 'tomorrow 02:00'"):
        shown(text)


@pytest.mark.parametrize("text", ["1969-12-30", "@999999999999", "in 999999999w", "999999999w ago"])
def test_what_cannot_be_shown_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="before 1970 or after the year 9999"):
        shown(text)

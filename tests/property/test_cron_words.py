"""Cron words on the nights when clocks are set, against a twin that looks at each minute (everyday.md c and j)."""

import datetime
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.schedules.times import CronTimes, read_words, zone_named
from tests.support.naive.cron import instants

HOUR = 3600
DAY = 24 * HOUR
# places that set their clocks in different ways, and the nights of the change
NIGHTS = {
    **dict.fromkeys(
        (
            *("Europe/Athens", "Europe/Berlin", "Europe/London", "Europe/Lisbon", "Europe/Dublin", "Europe/Kyiv"),
            *("Europe/Chisinau", "Europe/Paris", "Atlantic/Azores", "Asia/Nicosia", "Africa/Ceuta"),
        ),
        ("2026-03-29", "2026-10-25"),
    ),
    **dict.fromkeys(
        (
            *("America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Anchorage"),
            *("America/Halifax", "America/St_Johns", "America/Havana", "America/Port-au-Prince"),
        ),
        ("2026-03-08", "2026-11-01"),
    ),
    "America/Nuuk": ("2026-03-28", "2026-10-24"),
    "Asia/Jerusalem": ("2026-03-27", "2026-10-25"),
    "Asia/Beirut": ("2026-03-29", "2026-10-25"),
    "Africa/Cairo": ("2026-04-24", "2026-10-30"),
    "Australia/Sydney": ("2026-04-05", "2026-10-04"),
    "Australia/Adelaide": ("2026-04-05", "2026-10-04"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
    "Pacific/Auckland": ("2026-04-05", "2026-09-27"),
    "Pacific/Chatham": ("2026-04-05", "2026-09-27"),
    "Pacific/Norfolk": ("2026-04-05", "2026-10-04"),
    "America/Santiago": ("2026-04-05", "2026-09-06"),
    "America/Asuncion": ("2024-03-24", "2024-10-06"),
    # a day that was left out
    "Pacific/Apia": ("2011-12-30", "2011-09-24"),
    "Asia/Tehran": ("2022-03-22", "2022-09-22"),
}
WORDS = ("30 2 * * *", "0 0 * * *", "0 * * * *", "*/15 * * * *", "*/10 2 * * *")
ODD = [(zone, night) for zone, nights in NIGHTS.items() for night in nights]


def midnight(day: str) -> float:
    return datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.UTC).timestamp()


def forwards(times: CronTimes, begin: float, end: float) -> list[float]:
    found, at = [], times.next_after(begin - 1)
    while at is not None and at < end:
        found.append(at)
        at = times.next_after(at)
    return found


@pytest.mark.parametrize(("zone", "night"), ODD)
def test_each_instant_of_an_odd_night_comes_as_the_twin_says(zone: str, night: str) -> None:
    # the change is in this night, by the place's own clock
    begin, end = midnight(night) - 14 * HOUR, midnight(night) + 26 * HOUR
    for words in WORDS:
        times = CronTimes(read_words(words, ""), zone_named(zone))
        expected = instants(words, zone_named(zone), begin, end)

        assert forwards(times, begin, end) == expected, words

        # from any instant the last one before it, and the next one after it, are neighbours in the list
        for at in range(int(begin) + 4 * HOUR + 1700, int(end) - 4 * HOUR, 6 * HOUR):
            place = bisect_right(expected, at)
            if 0 < place < len(expected):
                assert times.last_until(at) == expected[place - 1], (words, at)
                assert times.next_after(at) == expected[place], (words, at)


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "30", "*/15", "5-9", "7,59", "*/7", "10-50/20"]),
    st.sampled_from(["*", "0", "2", "3", "23", "1-3", "*/2", "0,1,2"]),
    st.sampled_from(["*", "1", "29", "*/2", "24-30"]),
    st.sampled_from(["*", "3", "10", "*/3"]),
    st.sampled_from(["*", "0", "7", "1-5", "6"]),
)


@settings(max_examples=25, deadline=None)
@given(FIELDS, st.sampled_from(ODD), st.integers(0, 2 * DAY))
def test_any_words_at_any_instant_have_the_neighbours_of_the_twin(
    fields: tuple[str, ...], odd: tuple[str, str], ahead: int
) -> None:
    zone, begin = zone_named(odd[0]), midnight(odd[1]) - DAY
    words = " ".join(fields)
    times, at = CronTimes(read_words(words, ""), zone), begin + ahead
    expected = instants(words, zone, begin - DAY, begin + 4 * DAY)
    place = bisect_right(expected, at)

    before, after = times.last_until(at), times.next_after(at)

    assert before is not None
    assert before <= at
    assert after is not None
    assert after > at
    if place:
        assert before == expected[place - 1]
    else:
        assert before < begin - DAY
    if place < len(expected):
        assert after == expected[place]
    else:
        assert after >= begin + 4 * DAY
    assert times.last_until(after) == after
    assert times.next_after(before) == after

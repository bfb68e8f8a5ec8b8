"""Instants as people write them, in all zones. Source: everyday.md c."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.words.instants import Toward, parse_instant, wall_of

# gaps of an hour, of half an hour, at midnight, and of a whole day
ZONES = ("Europe/Athens", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Havana", "Pacific/Apia",
         "UTC", "Asia/Kathmandu", "America/Sao_Paulo", "Antarctica/Troll")  # fmt: skip
zones = st.sampled_from(ZONES).map(ZoneInfo)
instants = st.integers(min_value=10**8, max_value=4 * 10**9)
walls = st.datetimes(datetime(1980, 1, 1), datetime(2060, 1, 1)).map(lambda wall: wall.replace(microsecond=0))


@given(zones, walls)
@example(ZoneInfo("Pacific/Apia"), datetime(2011, 12, 30, 12))
@example(ZoneInfo("Australia/Lord_Howe"), datetime(2026, 10, 4, 2, 15))
@example(ZoneInfo("Europe/Athens"), datetime(2026, 10, 25, 3, 30))
def test_a_local_time_is_its_first_instant_or_the_end_of_its_gap(zone: ZoneInfo, wall: datetime) -> None:
    found = parse_instant(wall.isoformat(" "), 0, zone)

    assert found == int(found)
    there = wall_of(found, zone)
    if there == wall:
        # no earlier instant has this local time; clocks are put back by at most three hours here
        assert all(wall_of(found - 900 * step, zone) != wall for step in range(1, 13))
    else:
        assert wall_of(found - 1, zone) < wall < there


@given(zones, instants, st.integers(min_value=-840, max_value=840))
def test_a_time_with_an_offset_is_that_instant_everywhere(zone: ZoneInfo, instant: int, minutes: int) -> None:
    there = datetime.fromtimestamp(instant, timezone(timedelta(minutes=minutes)))

    assert parse_instant(there.isoformat(), 0, zone) == instant
    assert parse_instant(datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), 0, zone) == instant


@given(zones, instants, st.sampled_from(["14:00", "02:30", "noon", "sunday", "tue 03:15", "12:00 utc"]))
def test_the_next_one_comes_after_now_and_the_latest_one_does_not(zone: ZoneInfo, now: int, text: str) -> None:
    ahead, back = parse_instant(text, now, zone), parse_instant(text, now, zone, Toward.PAST)

    assert back <= now < ahead
    assert ahead - back <= 8 * 86400 + 2 * 3600


@given(zones, instants, st.integers(0, 10**6), st.sampled_from(["s", "m", "h", "d", " seconds", " hours"]))
def test_durations_are_real_time(zone: ZoneInfo, now: int, count: int, unit: str) -> None:
    length = count * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit.strip()[0]]

    assert parse_instant(f"in {count}{unit}", now, zone) == now + length
    if length < now:
        assert parse_instant(f"{count}{unit} ago", now, zone) == now - length


@given(st.text(max_size=30) | st.from_regex(r"(next|last|in|today|2026-1)? ?[0-9:+@tzhd -]{0,16}( ago|am)?"))
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    try:
        found = parse_instant(text, 1.79e9, ZoneInfo("Europe/Athens"))
    except InvalidRequest:
        return
    assert found >= 0

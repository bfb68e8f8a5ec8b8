"""Cron words: what is refused with which words, shorthands, H, and rare instants (everyday.md sections c and j)."""

import datetime

import pytest

from common.errors import InvalidRequest
from common.schedules.times import CronTimes, read_words, zone_named

AT = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)


def next_of(words: str, seed: str = "") -> str:
    found = read_words(words, seed).next_after(AT)
    assert found is not None
    return found.strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("0 22-2 * * *", "'22-2' for the hour goes over the end; write 22-23,0-2"),
        ("0 0 25-5 * *", "write 25-31,1-5"),
        ("30 2 31 2 *", "no month that they name has the day 31"),
        ("0 0 30 2 *", "no month that they name has the day 30"),
        ("* * * *", "cron words are five: .* has 4"),
        ("0 0 2 * * *", "cron words are five: .* has 6"),
        ("@reboot", "unknown cron word '@reboot'; known are @hourly, @daily"),
        ("0 24 * * *", "'24' for the hour is not understood"),
        ("0 0 ? * *", "'\\?' for the day-of-month is not understood; write '\\*' for any"),
        ("0 0 15W * *", "'15W' for the day-of-month is not understood"),
        ("0 0 L-3 * *", "'L-3' for the day-of-month"),
        ("H(5-3) * * * *", "'H\\(5-3\\)' for the minute is not understood; write H, H/5 or H\\(0-29\\)"),
        ("0 H/0 * * *", "'H/0' for the hour"),
        ("\n", "printable"),
        ("0 " * 101, "at most 200"),
    ],
)
def test_what_is_no_cron_words_is_refused_with_the_word(words: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        read_words(words, "")


@pytest.mark.parametrize(
    ("words", "instant"),
    [
        ("@daily", "2026-11-22 00:00"),
        ("@hourly", "2026-11-21 13:00"),
        ("@weekly", "2026-11-22 00:00"),
        ("@monthly", "2026-12-01 00:00"),
        ("@yearly", "2027-01-01 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        # the first monday that is a 29th of february
        ("0 0 29 2 */7", "2032-02-29 00:00"),
        ("0 0 l * *", "2026-11-30 00:00"),
        ("0 0 * * mon#1", "2026-12-07 00:00"),
        # day of the month or of the week, as neither is a star
        ("0 0 25 * MON", "2026-11-23 00:00"),
    ],
)
def test_words_name_these_instants(words: str, instant: str) -> None:
    assert next_of(words) == instant


def test_h_is_the_same_for_one_schedule_and_spreads_many() -> None:
    found = {read_words("H H(1-4) * * *", str(seed)).expression for seed in range(200)}

    assert next_of("H H(1-4) * * *", "a") == next_of("H H(1-4) * * *", "a")
    assert len(found) > 100
    assert all(1 <= int(words.split()[1]) <= 4 for words in found)
    minutes = [int(each) for each in read_words("H/15 * * * *", "a").expression.split()[0].split(",")]
    assert [minute - minutes[0] for minute in minutes] == [0, 15, 30, 45]


def test_words_are_explained() -> None:
    assert read_words("0 2 * * MON-FRI", "").explain() == "At 02:00 on Monday through Friday"


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../../etc/passwd", "/etc/localtime", "a" * 300, "\0"])
def test_an_unknown_zone_is_refused_with_what_to_write(zone: str) -> None:
    with pytest.raises(InvalidRequest, match=r"unknown time zone .*; use a name such as Europe/Athens or UTC"):
        zone_named(zone)


def test_instants_beyond_all_calendars_are_none() -> None:
    times = CronTimes(read_words("@daily", ""), zone_named(""))

    assert times.next_after(1e15) is None
    assert times.last_until(-5.0) is not None

"""Nights when clocks are set by half an hour, met from afar (everyday.md section j)."""

import datetime

from common.schedules.times import read_words, zone_named

# set back from 02:00 to 01:30 on 2026-04-05, and forward from 02:00 to 02:30 on 2026-10-04
LORD_HOWE = zone_named("Australia/Lord_Howe")


def text(found: datetime.datetime | None) -> str:
    assert found is not None
    return found.strftime("%Y-%m-%d %H:%M %z")


def test_the_first_instant_is_the_same_from_afar_and_from_close_by() -> None:
    words = read_words("*/15 2 5 4 *", "")

    afar = words.next_after(datetime.datetime(2026, 3, 1, 12, tzinfo=LORD_HOWE))
    close_by = words.next_after(datetime.datetime(2026, 4, 5, 1, tzinfo=LORD_HOWE))

    assert text(afar) == text(close_by) == "2026-04-05 02:00 +1030"


def test_the_last_instant_is_the_same_from_afar_and_from_close_by() -> None:
    words = read_words("*/15 1 4 10 *", "")

    afar = words.last_until(datetime.datetime(2026, 11, 1, 12, tzinfo=LORD_HOWE))
    close_by = words.last_until(datetime.datetime(2026, 10, 4, 3, tzinfo=LORD_HOWE))

    assert text(afar) == text(close_by) == "2026-10-04 01:45 +1030"

"""The name of the zone of local time."""

import time
from collections.abc import Iterator

import pytest

from common.words.times import zone_offset, zone_words

JANUARY, JULY = 1_767_225_600, 1_782_864_000


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "winter", "summer", "offset"),
    [
        ("UTC", "UTC", "UTC", 0),
        # rules of its own, so that no list of zones is needed
        ("CET-1CEST,M3.5.0,M10.5.0/3", "CET, UTC+0100", "CEST, UTC+0200", 7200),
        ("<-03>3", "UTC-0300", "UTC-0300", -10800),
    ],
    indirect=["zone"],
)
@pytest.mark.usefixtures("zone")
def test_the_zone_has_its_name_of_that_time_and_its_distance_from_utc(winter: str, summer: str, offset: int) -> None:
    assert (zone_words(JANUARY), zone_words(JULY)) == (winter, summer)
    assert zone_offset(JULY) == offset

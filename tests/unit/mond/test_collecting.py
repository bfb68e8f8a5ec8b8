"""Collectors on their timers. Source: mond.md 4 and 5; `daemons/mond/collecting.py`."""

import threading
from typing import Any, ClassVar, cast

import orjson
import pytest
import trio

from common.settings import Settings
from daemons.mond.collecting import Reports, TimedCollector
from daemons.mond.collectors.base import Collector, Measured

NO_SETTINGS = cast(Settings, None)


class Seldom(Collector):
    """It takes a while, and runs once an hour."""

    NAME: ClassVar[str] = "seldom"
    INTERVAL_S: ClassVar[float] = 3600.0

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.goes_on = threading.Event()
        self.calls = 0

    def collect(self) -> Measured:
        self.calls += 1
        assert self.goes_on.wait(30)
        return Measured({"calls": self.calls})


def _data(reports: Reports) -> Any:
    report = reports.find("default", "seldom")
    assert report is not None
    return orjson.loads(report.data)


@pytest.mark.trio
async def test_a_collector_that_is_not_done_in_time_has_its_first_report_when_it_is() -> None:
    seldom = Seldom(NO_SETTINGS)
    reports = Reports([seldom])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reports.run)
        await reports.first_reports(0.01)
        assert "nothing is collected yet" in _data(reports)["error"]

        seldom.goes_on.set()
        with trio.fail_after(30):
            await reports.first_reports(30)
        assert _data(reports) == {"calls": 1}
        nursery.cancel_scope.cancel()

    assert seldom.calls == 1


class Faulty(Collector):
    """It fails with these texts, one after the other; an empty one is a success."""

    NAME: ClassVar[str] = "faulty"
    TEXTS: ClassVar[tuple[str, ...]] = ("a", "a", "b", "", "b", "b")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._texts = iter(self.TEXTS)

    def collect(self) -> Measured:
        if text := next(self._texts):
            raise KeyError(text)
        return Measured({})


@pytest.mark.trio
async def test_a_collector_that_fails_at_each_call_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    watched = TimedCollector(Faulty(NO_SETTINGS))
    told = []
    for _ in Faulty.TEXTS:
        await watched.collect()
        told.append(orjson.loads(watched.report.data).get("error"))

    assert told == ["KeyError: 'a'", "KeyError: 'a'", "KeyError: 'b'", None, "KeyError: 'b'", "KeyError: 'b'"]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3

"""What the log tells while other nodes lack changes (noded.md 8, "more than half failed")."""

import pytest
import trio

from common.replica.replica import NotCopied
from daemons.luxid.files.queuefiles import AGAIN_S, MissingCopies

FEW, MOST = NotCopied("1 of 4"), NotCopied("3 of 4", is_most=True)


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.mark.trio
async def test_many_changes_of_one_absence_are_few_lines(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level("INFO")
    missing = MissingCopies()
    for _ in range(100):
        missing.lacking(FEW)
    await trio.sleep(AGAIN_S)
    missing.lacking(FEW)
    missing.complete()
    missing.complete()

    assert _lines(caplog) == [
        ("WARNING", "copies.missing"),
        ("WARNING", "copies.missing"),
        ("INFO", "copies.no_longer_missing"),
    ]


@pytest.mark.trio
async def test_more_than_half_is_an_error_at_once(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level("INFO")
    missing = MissingCopies()

    for error in (FEW, MOST, MOST, FEW):
        missing.lacking(error)

    assert _lines(caplog) == [("WARNING", "copies.missing"), ("ERROR", "copies.missing")]

"""luxid's numbers are taken at fixed intervals; a luxid that does not answer is known with its reason."""

import pytest
import trio
import trio.testing

from common.errors import Unavailable
from daemons.rapid.page.recorder import EVERY_S, Recorder
from protocol.metrics import DaemonMetrics

METRICS = DaemonMetrics()


class Luxid:
    """Answers, refuses, or hangs."""

    def __init__(self) -> None:
        self.state = "answers"

    async def read(self) -> DaemonMetrics:
        if self.state == "refuses":
            raise Unavailable("luxid is not reached: connection refused")
        if self.state == "hangs":
            await trio.sleep_forever()
        return METRICS


@pytest.mark.trio
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("refuses", "luxid is not reached: connection refused"),
        ("hangs", "it is there, and does not reply"),
    ],
)
async def test_a_luxid_that_does_not_answer_is_silent_until_it_does(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, state: str, reason: str
) -> None:
    monkeypatch.setattr("daemons.rapid.page.recorder.sample_of", lambda at, _: at)
    luxid = Luxid()
    recorder = Recorder(luxid.read)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        await trio.sleep(1)
        assert recorder.silence is None
        assert recorder.latest is METRICS

        luxid.state = state
        await trio.sleep(3 * EVERY_S)
        first = recorder.silence
        assert first is not None
        assert first.reason == reason
        await trio.sleep(3 * EVERY_S)
        assert recorder.silence is not None
        assert recorder.silence.since == first.since
        assert len(recorder.samples) == 1

        luxid.state = "answers"
        await trio.sleep(2 * EVERY_S)
        assert recorder.silence is None
        assert len(recorder.samples) >= 2
        nursery.cancel_scope.cancel()

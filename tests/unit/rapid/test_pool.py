"""Calls of rapid to a daemon that is restarted: sent again where that is safe, for a bounded time."""

from pathlib import Path

import orjson
import pytest
import trio

from common.errors import TooBusy
from daemons.rapid.backend import ConnectionPool
from daemons.rapid.refusals import RequestRefused, Silent
from protocol.framing import ETX
from protocol.http.body import HungUp
from protocol.luxi.jobs import SubmitJob
from protocol.luxi.queries import QueryConfigValues

OP = {"OP_ID": "OP_TEST_DELAY", "duration": 1.0}


class Daemon:
    """Replies to the second and later requests; on the first one it dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.requests: list[dict[str, object]] = []

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        with trio.socket.socket(trio.socket.AF_UNIX) as listener:
            await listener.bind(str(self._path))
            listener.listen()
            task_status.started()
            while True:
                sock, _ = await listener.accept()
                with sock:
                    await self._serve(trio.SocketStream(sock))

    async def _serve(self, stream: trio.SocketStream) -> None:
        received = b""
        while not received.endswith(ETX):
            received += await stream.receive_some()
        self.requests.append(orjson.loads(received[:-1]))
        if len(self.requests) > 1:
            await stream.send_all(orjson.dumps({"success": True, "result": 7}) + ETX)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


def pool(path: Path, patience_s: float = 60.0, most: int = 9) -> ConnectionPool:
    return ConnectionPool(path, "luxid", patience_s, most)


async def called_with(path: Path, request: SubmitJob) -> tuple[int, int]:
    """The result of a call during which the daemon dies, and how often it was sent."""
    daemon, calls = Daemon(path), pool(path)
    result: int = 0
    async with trio.open_nursery() as nursery:
        await nursery.start(daemon.run)
        try:
            job_id = await calls.call(request)
            result = job_id
        except RequestRefused as error:
            result = error.status
        nursery.cancel_scope.cancel()
    calls.close()
    return result, len(daemon.requests)


@pytest.mark.trio
async def test_a_submission_with_a_key_is_sent_again(path: Path) -> None:
    assert await called_with(path, SubmitJob((OP,), key="k")) == (7, 2)


@pytest.mark.trio
async def test_a_submission_without_a_key_is_not_sent_twice(path: Path) -> None:
    assert await called_with(path, SubmitJob((OP,))) == (502, 1)


@pytest.mark.trio
async def test_a_daemon_that_does_not_come_back_is_waited_for_as_long_as_the_settings_say(
    path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()

    with pytest.raises(Silent, match="luxid cannot be reached now; try again"):
        await pool(path, 60.0).call(QueryConfigValues(()))

    assert 58.0 < trio.current_time() - began <= 60.0


@pytest.mark.trio
async def test_nobody_waits_for_it_in_place_of_a_client_that_has_gone(path: Path) -> None:
    messages = iter(({"type": "http.request"}, {"type": "http.disconnect"}))

    async def receive() -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        return next(messages)

    with pytest.raises(HungUp):
        await pool(path, 600.0).call(QueryConfigValues(()), receive=receive)


@pytest.mark.trio
async def test_more_calls_at_a_time_than_the_limit_are_refused_at_once(path: Path) -> None:
    with trio.socket.socket(trio.socket.AF_UNIX) as listener:
        await listener.bind(str(path))
        listener.listen()
        crowded = pool(path, most=2)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(crowded.call, QueryConfigValues(()))
            await trio.testing.wait_all_tasks_blocked()

            with pytest.raises(TooBusy, match="2 calls to luxid are under way, which is the limit; try again"):
                await crowded.call(QueryConfigValues(()))
            nursery.cancel_scope.cancel()
    assert crowded.busy == 0

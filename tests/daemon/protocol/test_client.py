"""The trio client against a real server."""

from pathlib import Path

import pytest
import trio
import trio.testing

from common.errors import ConnectionLost, RemoteError, Unavailable
from protocol.client import Client
from protocol.envelope import Call, success
from protocol.framing import ETX
from protocol.serving.server import ServerRules
from tests.daemon.protocol.echo import Add, Echo, EchoService, Find, Hold, Repeat, listening, serving

pytestmark = pytest.mark.trio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "socket"


@pytest.fixture
def echo() -> EchoService:
    return EchoService()


async def test_call_gives_the_typed_reply(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), await Client.connect(path) as client:
        assert await client.call(Echo("é中")) == "é中"
        assert await client.call(Add(1, 2)) == 3


async def test_large_request_and_reply_pass(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), Client(path) as client:
        assert await client.call(Echo("x" * 5_000_000)) == "x" * 5_000_000
        assert await client.call(Repeat("x", 5_000_000)) == "x" * 5_000_000


async def test_error_reply_is_raised_with_code_and_fields(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), Client(path) as client:
        with pytest.raises(RemoteError, match="no such thing 'x'") as caught:
            await client.call(Find("x"))

        assert (caught.value.code, caught.value.fields) == ("not_found", {"name": "x"})
        assert await client.call(Echo("on")) == "on"


async def test_tasks_that_share_a_client_get_their_own_replies(path: Path, echo: EchoService) -> None:
    replies: dict[int, int] = {}

    async with serving(path, echo.service), Client(path) as client, trio.open_nursery() as nursery:

        async def ask(number: int) -> None:
            replies[number] = await client.call(Add(number, 1000))

        for number in range(50):
            nursery.start_soon(ask, number)

    assert replies == {number: number + 1000 for number in range(50)}


async def test_daemon_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(Unavailable, match=rf"^luxid does not answer at {path}: no such file.*is it running\?"):
        await Client.connect(path, daemon="luxid")


async def test_socket_in_a_deep_folder_is_reached(tmp_path: Path, echo: EchoService) -> None:
    folder = tmp_path / ("deep" * 20) / ("deeper" * 20)
    folder.mkdir(parents=True)

    async with serving(folder / "socket", echo.service), Client(folder / "socket") as client:
        assert await client.call(Echo("x")) == "x"
    assert not (folder / "socket").exists()


async def test_canceled_call_leaves_no_reply_for_the_next(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), Client(path) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call, Hold())
            await echo.entered.wait()
            nursery.cancel_scope.cancel()
        echo.release.set()

        assert await client.call(Echo("next")) == "next"


async def test_closing_under_a_call_is_a_lost_connection(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), Client(path) as client, trio.open_nursery() as nursery:

        async def hold() -> None:
            with pytest.raises(ConnectionLost):
                await client.call(Hold())

        nursery.start_soon(hold)
        await echo.entered.wait()
        await client.aclose()


async def test_connection_lost_before_the_reply_is_told(path: Path, echo: EchoService) -> None:
    async with Client(path, daemon="luxid") as client:
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: _serve_until(path, echo, task_status))

            with pytest.raises(ConnectionLost, match=r"luxid at .* closed the connection"):
                await client.call(Hold())

        with pytest.raises(Unavailable):
            await client.call(Echo("x"))


async def _serve_until(path: Path, echo: EchoService, task_status: trio.TaskStatus[None]) -> None:
    """A server that stops as soon as `hold` is called."""
    async with serving(path, echo.service):
        task_status.started()
        await echo.entered.wait()


async def test_client_outlives_a_restart(path: Path, echo: EchoService) -> None:
    async with Client(path) as client:
        async with serving(path, echo.service):
            assert await client.call(Echo("one")) == "one"
        async with serving(path, echo.service):
            assert await client.call_retrying(Echo("two"), 60) == "two"


async def test_connection_closed_as_idle_is_opened_again(
    path: Path, echo: EchoService, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(path, echo.service, ServerRules(idle_timeout_s=60)), Client(path) as client:
        assert await client.call(Echo("one")) == "one"
        await trio.sleep(61)
        assert await client.call(Echo("two")) == "two"


async def test_retrying_waits_for_a_daemon_that_comes_later(
    path: Path, echo: EchoService, autojump_clock: trio.testing.MockClock
) -> None:
    replies = []

    async def ask() -> None:
        async with Client(path) as client:
            replies.append(await client.call_retrying(Echo("x"), 60))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(30)
        async with serving(path, echo.service):
            await trio.sleep(5)

    assert replies == ["x"]


async def test_retrying_sends_the_same_request_again(path: Path, autojump_clock: trio.testing.MockClock) -> None:
    received: list[bytes] = []
    listener = trio.socket.from_stdlib_socket(listening(path))

    async def lose_one_then_answer() -> None:
        with listener:
            for reply in (b"", success(Call("echo", []), "x") + ETX):
                sock, _ = await listener.accept()
                with sock:
                    received.append(await sock.recv(4096))
                    await sock.send(reply)

    async with trio.open_nursery() as nursery, Client(path) as client:
        nursery.start_soon(lose_one_then_answer)
        assert await client.call_retrying(Echo("x"), 60) == "x"

    assert len(received) == 2
    assert received[0] == received[1]


async def test_retrying_ends_with_the_last_reason(path: Path, autojump_clock: trio.testing.MockClock) -> None:
    started_at = trio.current_time()

    with pytest.raises(Unavailable, match="does not answer at"):
        await Client(path).call_retrying(Echo("x"), 60)

    assert trio.current_time() == started_at + 60


async def test_retrying_gives_up_on_a_silent_daemon(
    path: Path, echo: EchoService, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(path, echo.service), Client(path, daemon="wconfd") as client:
        with pytest.raises(Unavailable, match="wconfd gave no answer to hold within 60 s"):
            await client.call_retrying(Hold(), 60)


async def test_error_reply_is_not_retried(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), Client(path) as client:
        with pytest.raises(RemoteError):
            await client.call_retrying(Find("x"), 60)

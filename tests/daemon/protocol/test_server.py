"""DESIGN section 4: calls over a real Unix socket, in both dialects, and what never hurts the daemon."""

import errno
import itertools
import json
import logging
import os
import socket
import stat
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
import trio.testing

from common.access import Role
from common.errors import Conflict, NotFound, Unavailable
from protocol.framing import ETX
from protocol.peer import Peer
from protocol.serving.route import Route
from protocol.serving.server import EAGER_TURNS, ServerRules
from protocol.serving.service import Service
from tests.daemon.protocol.echo import Echo, EchoService, RawCaller, raw_caller, serving

pytestmark = pytest.mark.trio

STAY = ServerRules()
CLOSE = ServerRules(close_on_bad_arguments=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "socket"


@pytest.fixture
def echo() -> EchoService:
    return EchoService()


@pytest.fixture
async def caller(path: Path, echo: EchoService) -> AsyncIterator[RawCaller]:
    async with serving(path, echo.service), await raw_caller(path) as caller:
        yield caller


def ganeti(method: str, *args: Any) -> bytes:
    return orjson.dumps({"method": method, "args": args})


def rpc(method: str, params: Any = None, call_id: Any = 1) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "id": call_id}
    return orjson.dumps(message if params is None else {**message, "params": params})


async def assert_alive(path: Path) -> None:
    async with await raw_caller(path) as other:
        assert await other.ask(ganeti("echo", "alive")) == {"success": True, "result": "alive"}


async def test_calls_on_one_connection_are_answered_in_turn(caller: RawCaller) -> None:
    assert await caller.ask(ganeti("echo", "one")) == {"success": True, "result": "one"}
    assert await caller.ask(ganeti("add", 1, 2)) == {"success": True, "result": 3}
    assert await caller.ask(ganeti("add", 1)) == {"success": True, "result": 1}


async def test_calls_in_one_packet_are_answered_in_order(caller: RawCaller) -> None:
    await caller.send(*(ganeti("echo", str(number)) for number in range(5 * EAGER_TURNS)))

    replies = [(await caller.read())["result"] for _ in range(5 * EAGER_TURNS)]

    assert replies == [str(number) for number in range(5 * EAGER_TURNS)]


async def test_call_in_single_bytes_is_answered(caller: RawCaller) -> None:
    for byte in ganeti("echo", "slow") + ETX:
        await caller.stream.send_all(bytes([byte]))
        await trio.testing.wait_all_tasks_blocked()

    assert await caller.read() == {"success": True, "result": "slow"}


@pytest.mark.parametrize("rules", [STAY, CLOSE])
@pytest.mark.parametrize(
    "message",
    [b"", b"{nonsense", b'"text"', b'{"args":[]}', b'{"method":5,"args":[]}', b'{"method":"echo"}'],
)
async def test_what_is_no_request_gets_a_plain_text_and_the_end(
    path: Path, echo: EchoService, message: bytes, rules: ServerRules
) -> None:
    async with serving(path, echo.service, rules), await raw_caller(path) as caller:
        reply = await caller.ask(message)

        assert reply["success"] is False
        assert isinstance(reply["result"], str)
        assert await caller.read() is None
        await assert_alive(path)


@pytest.mark.parametrize("rules", [STAY, CLOSE])
async def test_what_is_nested_too_deeply_gets_an_error_that_says_so(
    path: Path, echo: EchoService, rules: ServerRules
) -> None:
    async with serving(path, echo.service, rules), await raw_caller(path) as caller:
        reply = await caller.ask(b"[" * 1_000_000)

        text = "the JSON is nested deeper than 128 levels, which is the limit"
        assert (reply["success"], reply["result"]) == (False, ["GenericError", [text]])
        await assert_alive(path)


BAD_ARGUMENTS = [
    ganeti("noSuchMethod"),
    ganeti("echo"),
    ganeti("echo", "one", "two"),
    ganeti("echo", 5),
    b'{"method":"echo","args":{}}',
    b'{"method":"echo","args":null}',
]


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
async def test_bad_arguments_keep_the_connection(path: Path, echo: EchoService, message: bytes) -> None:
    async with serving(path, echo.service, STAY), await raw_caller(path) as caller:
        reply = await caller.ask(message)

        name, args = reply["result"]
        assert (reply["success"], name, reply["error"]["code"]) == (False, "GenericError", "invalid")
        assert isinstance(args[0], str)
        assert await caller.ask(ganeti("echo", "on")) == {"success": True, "result": "on"}


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
async def test_bad_arguments_end_the_connection_where_the_rules_say_so(
    path: Path, echo: EchoService, message: bytes
) -> None:
    async with serving(path, echo.service, CLOSE), await raw_caller(path) as caller:
        reply = await caller.ask(message)

        assert isinstance(reply["result"], str)
        assert await caller.read() is None


async def test_calls_after_the_end_are_not_carried_out(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), await raw_caller(path) as caller:
        await caller.send(b"nonsense", ganeti("hold"))

        assert (await caller.read())["success"] is False
        assert await caller.read() is None
        assert not echo.entered.is_set()


async def test_error_of_a_handler_keeps_the_connection(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service, CLOSE), await raw_caller(path) as caller:
        assert await caller.ask(ganeti("find", "x")) == {
            "success": False,
            "result": ["GenericError", ["no such thing 'x'"]],
            "error": {"code": "not_found", "fields": {"name": "x"}},
        }
        assert await caller.ask(ganeti("echo", "on")) == {"success": True, "result": "on"}


async def test_bug_in_a_handler_is_an_internal_error_with_an_id_in_the_log(
    caller: RawCaller, caplog: pytest.LogCaptureFixture
) -> None:
    reply = await caller.ask(ganeti("crash"))

    bug_id = reply["error"]["fields"]["id"]
    assert reply["error"]["code"] == "internal"
    assert bug_id in reply["result"][1][0]
    assert "secret" not in json.dumps(reply)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert bug_id in str(vars(record))
    assert record.exc_info is not None
    assert await caller.ask(ganeti("echo", "on")) == {"success": True, "result": "on"}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.EIO, errno.ENOMEM])
async def test_want_of_descriptors_room_or_memory_in_a_handler_is_no_bug_and_may_be_tried_again(
    path: Path, number: int
) -> None:
    async def fail(request: Echo, peer: Peer) -> str:
        raise OSError(number, os.strerror(number))

    async with serving(path, Service([Route(Echo, fail, role=Role.READ)])), await raw_caller(path) as caller:
        reply = await caller.ask(ganeti("echo", "x"))

    assert reply["error"]["code"] == "unavailable"
    assert os.strerror(number).lower() in reply["result"][1][0]


async def test_reply_that_is_no_json_is_an_internal_error(path: Path) -> None:
    async def handler(request: Echo, peer: Peer) -> Any:
        return object()

    async with serving(path, Service([Route(Echo, handler, role=Role.READ)])), await raw_caller(path) as caller:
        reply = await caller.ask(ganeti("echo", "x"))

        assert reply["error"]["code"] == "internal"


async def test_invalid_utf8_is_replaced(caller: RawCaller) -> None:
    assert (await caller.ask(b'{"method":"echo","args":["a\xffb"]}'))["result"] == "a�b"


async def test_non_ascii_comes_back_escaped(caller: RawCaller) -> None:
    await caller.send(ganeti("echo", "é中😀"))

    raw = await caller.read_raw()

    assert raw.isascii()
    assert json.loads(raw)["result"] == "é中😀"


async def test_white_space_around_a_call_is_accepted(caller: RawCaller) -> None:
    assert (await caller.ask(b" \n" + ganeti("echo", "x") + b"\n"))["result"] == "x"


async def test_message_past_the_limit_is_refused_in_bounded_memory(path: Path, echo: EchoService) -> None:
    limit = 4 * 2**20
    piece = b"x" * 2**20
    async with (
        serving(path, echo.service, ServerRules(message_limit=limit)),
        await raw_caller(path) as caller,
    ):
        tracemalloc.start()
        try:
            for _ in range(100):
                await caller.stream.send_all(piece)
            await caller.stream.send_all(ETX)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert peak < 3 * limit
        assert f"more than {limit} bytes" in (await caller.read())["result"]
        assert await caller.read() is None
        await assert_alive(path)


async def test_large_message_within_the_limit_is_answered(caller: RawCaller) -> None:
    text = "x" * (5 * 2**20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.send, ganeti("echo", text))

        assert (await caller.read())["result"] == text


async def test_slow_reader_does_not_stop_another_connection(path: Path, caller: RawCaller) -> None:
    await caller.send(*[ganeti("repeat", "x", 2**20)] * 20)
    await trio.testing.wait_all_tasks_blocked()

    await assert_alive(path)

    assert [len((await caller.read())["result"]) for _ in range(20)] == [2**20] * 20


async def test_reader_that_never_reads_is_given_up(
    path: Path, echo: EchoService, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(path, echo.service, ServerRules(send_timeout_s=7)), await raw_caller(path) as caller:
        started_at = trio.current_time()
        await caller.send(ganeti("repeat", "x", 2**22), ganeti("hold"))
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(8)

        assert await caller.read() is None
        assert not echo.entered.is_set()
        assert trio.current_time() == started_at + 8


@pytest.mark.parametrize("start", [b"", b'{"method":'])
async def test_idle_connection_is_closed_without_a_reply(
    path: Path, echo: EchoService, autojump_clock: trio.testing.MockClock, start: bytes
) -> None:
    async with serving(path, echo.service, ServerRules(idle_timeout_s=60)), await raw_caller(path) as caller:
        started_at = trio.current_time()
        if start:
            await caller.stream.send_all(start)

        assert await caller.read() is None
        assert trio.current_time() == started_at + 60


async def test_each_connection_is_idle_from_its_own_last_bytes_on(
    path: Path, echo: EchoService, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(path, echo.service, ServerRules(idle_timeout_s=60)), await raw_caller(path) as early:
        started_at = trio.current_time()
        await trio.sleep(20)
        async with await raw_caller(path) as late:
            await trio.sleep(30)
            await early.send(ganeti("repeat", "x", 1))
            assert await early.read() == {"success": True, "result": "x"}

            assert await late.read() is None
            assert trio.current_time() == started_at + 80
        assert await early.read() is None
        assert trio.current_time() == started_at + 110


async def test_call_in_progress_is_not_idle(
    path: Path, echo: EchoService, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(path, echo.service, ServerRules(idle_timeout_s=60)), await raw_caller(path) as caller:
        await caller.send(ganeti("hold"))
        await echo.entered.wait()
        await trio.sleep(600)
        echo.release.set()

        assert await caller.read() == {"success": True, "result": "held"}


async def test_call_finishes_when_its_caller_has_gone(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service):
        async with await raw_caller(path) as caller:
            await caller.send(ganeti("hold"))
            await echo.entered.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert not echo.finished.is_set()

        echo.release.set()
        await echo.finished.wait()

        await assert_alive(path)


async def test_end_in_the_middle_of_a_message_is_silent(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), await raw_caller(path) as caller:
        await caller.stream.send_all(b'{"method":')
        await caller.stream.send_eof()

        assert await caller.read() is None


async def test_connection_that_pipelines_lets_others_run_after_some_turns(path: Path) -> None:
    # few enough that the unread replies fit into the socket
    call_count = 5 * EAGER_TURNS
    answered = 0
    # one entry a time another task had its turn
    seen = [0]

    async def handler(request: Echo, peer: Peer) -> str:
        nonlocal answered
        answered += 1
        return request.text

    async with serving(path, Service([Route(Echo, handler, role=Role.READ)])), await raw_caller(path) as caller:
        await caller.send(*[ganeti("echo", "x")] * call_count)
        while answered < call_count:
            await trio.lowlevel.checkpoint()
            seen.append(answered)

    # trio shuffles the tasks of a round, so two turns of the server may lie between two of ours
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 2 * EAGER_TURNS


async def test_error_that_is_no_json_is_an_internal_error(path: Path) -> None:
    async def handler(request: Echo, peer: Peer) -> str:
        raise NotFound("x", thing=object())

    async with serving(path, Service([Route(Echo, handler, role=Role.READ)])), await raw_caller(path) as caller:
        assert (await caller.ask(ganeti("echo", "x")))["error"]["code"] == "internal"


async def test_jsonrpc_takes_positional_and_named_params(caller: RawCaller) -> None:
    assert await caller.ask(rpc("add", [1, 2])) == {"jsonrpc": "2.0", "result": 3, "id": 1}
    assert await caller.ask(rpc("add", {"right": 5, "left": 1}, "x")) == {"jsonrpc": "2.0", "result": 6, "id": "x"}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b'{"jsonrpc":"2.0"', -32700),
        (rpc("noSuchMethod"), -32601),
        (rpc("add"), -32602),
        (rpc("add", {"left": 1, "wrong": 2}), -32602),
        (rpc("crash"), -32603),
        (rpc("find", ["x"]), -32001),
        (rpc("order"), -32003),
    ],
)
@pytest.mark.parametrize("rules", [STAY, CLOSE])
async def test_jsonrpc_errors_have_codes_and_keep_the_connection(
    path: Path, echo: EchoService, message: bytes, code: int, rules: ServerRules
) -> None:
    async with serving(path, echo.service, rules), await raw_caller(path) as caller:
        assert (await caller.ask(message))["error"]["code"] == code
        assert await caller.ask(rpc("echo", ["on"])) == {"jsonrpc": "2.0", "result": "on", "id": 1}


async def test_jsonrpc_notification_is_carried_out_without_a_reply(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), await raw_caller(path) as caller:
        echo.release.set()
        await caller.send(
            b'{"jsonrpc":"2.0","method":"hold"}', b'{"jsonrpc":"2.0","method":"crash"}', rpc("echo", ["x"])
        )

        assert (await caller.read())["result"] == "x"
        assert echo.finished.is_set()


async def test_jsonrpc_batch_is_answered_by_one_list(caller: RawCaller) -> None:
    notification = b'{"jsonrpc":"2.0","method":"echo","params":["quiet"]}'
    batch = b",".join([rpc("add", [1, 1], 1), notification, b"5", rpc("find", ["x"], 2), rpc("echo", ["é"], 3)])

    sum_reply, no_request, not_found, text = await caller.ask(b"[" + batch + b"]")

    assert sum_reply == {"jsonrpc": "2.0", "result": 2, "id": 1}
    assert (no_request["error"]["code"], no_request["id"]) == (-32600, None)
    assert (not_found["error"]["code"], not_found["id"]) == (-32001, 2)
    assert text["result"] == "é"


async def test_jsonrpc_batch_of_notifications_gets_no_reply(caller: RawCaller) -> None:
    await caller.send(b'[{"jsonrpc":"2.0","method":"add","params":[1]}]', rpc("echo", ["next"]))

    assert (await caller.read())["result"] == "next"


async def test_dialects_mix_on_one_connection(caller: RawCaller) -> None:
    assert "jsonrpc" in await caller.ask(rpc("echo", ["x"]))
    assert "success" in await caller.ask(ganeti("echo", "x"))


async def test_handler_learns_who_is_calling(caller: RawCaller) -> None:
    assert (await caller.ask(ganeti("whoami")))["result"] == [os.getpid(), os.getuid(), os.getgid()]


@pytest.mark.parametrize(
    ("message", "of_reply"),
    [
        (ganeti("hold"), lambda reply: reply["error"]["code"]),
        (b"nonsense", lambda reply: reply["error"]["code"]),
        (rpc("hold"), lambda reply: reply["error"]["data"]["code"]),
        (b"[" + rpc("hold") + b"]", lambda reply: reply["error"]["data"]["code"]),
        (b"x" * 2**20, lambda reply: reply["error"]["code"]),
    ],
)
async def test_peer_that_may_not_call_is_told_so_and_closed(
    path: Path, echo: EchoService, monkeypatch: pytest.MonkeyPatch, message: bytes, of_reply: Any
) -> None:
    monkeypatch.setattr("protocol.serving.server.peer_of", lambda _: Peer(1, 4_000_000, 4_000_000))
    async with serving(path, echo.service), await raw_caller(path) as caller:
        assert of_reply(await caller.ask(message)) == "denied"
        assert await caller.read() is None
        assert not echo.entered.is_set()


async def test_socket_has_its_mode_and_goes_with_the_server(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service, ServerRules(socket_mode=0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    assert not path.exists()


async def test_stale_socket_file_is_replaced(path: Path, echo: EchoService) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    async with serving(path, echo.service):
        await assert_alive(path)


async def test_socket_of_a_living_daemon_is_left_alone(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service):
        with pytest.raises(BaseExceptionGroup) as caught:
            async with serving(path, echo.service):
                raise AssertionError("started twice")

        assert caught.group_contains(Conflict, match="another daemon answers")
        await assert_alive(path)


async def test_file_that_is_no_socket_is_left_alone(path: Path, echo: EchoService) -> None:
    path.write_text("precious")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with serving(path, echo.service):
            raise AssertionError("started")

    assert caught.group_contains(Conflict, match="not a socket")
    assert path.read_text() == "precious"


async def test_missing_folder_is_named(tmp_path: Path, echo: EchoService) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with serving(tmp_path / "absent" / "socket", echo.service):
            raise AssertionError("started")

    assert caught.group_contains(Unavailable, match="absent/socket: no such file or directory")


async def test_socket_of_a_successor_outlives_its_predecessor(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as successor:
            successor.bind(str(path))

    assert path.exists()


async def test_server_out_of_descriptors_goes_on_later(
    path: Path,
    echo: EchoService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
) -> None:
    accept = socket.socket.accept
    failures = [OSError(24, "Too many open files"), OSError(103, "Software caused connection abort")]

    def flaky(self: socket.socket) -> Any:
        if failures:
            raise failures.pop(0)
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", flaky)
    async with serving(path, echo.service):
        await assert_alive(path)

    assert not failures
    assert [record.getMessage().split()[0] for record in caplog.records] == ["accept.failed"]


async def test_stopping_closes_connections_and_cancels_calls(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service):
        idle = await raw_caller(path)
        busy = await raw_caller(path)
        await busy.send(ganeti("hold"))
        await echo.entered.wait()

    assert await idle.read() is None
    assert await busy.read() is None
    assert not echo.finished.is_set()
    await idle.stream.aclose()
    await busy.stream.aclose()


async def test_method_listed_twice_is_refused() -> None:
    async def handler(request: Echo, peer: Peer) -> str:
        return request.text

    with pytest.raises(ValueError, match="twice"):
        Service([Route(Echo, handler, role=Role.READ), Route(Echo, handler, role=Role.READ)])

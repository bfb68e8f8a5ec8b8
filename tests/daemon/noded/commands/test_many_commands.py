"""Many commands at once on one node: no thread, process or descriptor of the node daemon stays for one (DESIGN 13)."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from common.wire import structure
from protocol.noded.call import request_body
from protocol.noded.commands import CommandNews, CommandPhase, FollowCommand, ForgetCommands, StartCommand
from tests.support.machines.nodecommands import CommandsOf, shell
from tests.support.machines.nodes import HOST, Node
from tests.support.wait import wait_until_async

COUNT = int(os.environ.get("GANTRY_TEST_COMMANDS", "60"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as node:
        node.start()
        yield node


class Caller:
    """One connection, as a job process has it."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self._stream = stream

    async def call(self, call: Any) -> Any:
        body = request_body(call)
        head = f"POST /{call.METHOD} HTTP/1.1\r\nHost: n\r\nContent-Length: {len(body)}\r\n\r\n"
        await self._stream.send_all(head.encode() + body)
        received = b""
        while b"\r\n\r\n" not in received:
            received += await self._stream.receive_some(65536)
        text, _, rest = received.partition(b"\r\n\r\n")
        (length,) = [
            int(line.split(b":")[1]) for line in text.lower().split(b"\r\n") if line.startswith(b"content-len")
        ]
        while len(rest) < length:
            rest += await self._stream.receive_some(65536)
        is_done, payload = orjson.loads(rest)
        assert is_done, payload
        return payload


class Crowd:
    """Job processes that each run one command, all at the same time."""

    def __init__(self, node: Node, count: int) -> None:
        self._node = node
        self._keys = [f"{number}.0.1" for number in range(1, count + 1)]
        self._context = node.context(node.client_pem)
        # key -> output
        self.outputs: dict[str, bytes] = {}
        self.follows = 0
        self.all_run = trio.Event()
        self.begun = 0

    async def run(self, script: str) -> None:
        async with trio.open_nursery() as nursery:
            for key in self._keys:
                nursery.start_soon(self._one, key, script)

    async def _one(self, key: str, script: str) -> None:
        tcp = await trio.open_tcp_stream(HOST, self._node.port)
        async with trio.SSLStream(tcp, self._context, https_compatible=True) as stream:
            caller = Caller(stream)
            await caller.call(StartCommand(key, shell(f"echo {key}; {script}"), 0, 0))
            self.begun += 1
            if self.begun == len(self._keys):
                self.all_run.set()
            self.outputs[key] = await self._follow(caller, key)
            await caller.call(ForgetCommands((key,)))

    async def _follow(self, caller: Caller, key: str) -> bytes:
        output, phase = b"", CommandPhase.RUNNING
        while phase.may_run:
            self.follows += 1
            follow = FollowCommand(key, len(output), 0, phase, 40.0)
            news = structure(await caller.call(follow), CommandNews)
            output += news.output.data
            phase = news.state.phase
        assert phase is CommandPhase.ENDED
        assert news.state.outcome is not None
        assert news.state.outcome.exit_code == 0
        return output


def fds(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_many_commands_at_once_take_no_thread_and_leave_nothing(node: Node, tmp_path: Path) -> None:
    CommandsOf(node).start(shell("true"), "9.9.9")
    CommandsOf(node).end_of("9.9.9")
    fds_before = fds(node.pid)
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    go = os.open(fifo, os.O_RDWR)

    async def run() -> tuple[Crowd, int]:
        crowd = Crowd(node, COUNT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crowd.run, f"read line < {fifo}")
            await crowd.all_run.wait()
            threads = len(os.listdir(f"/proc/{node.pid}/task"))
            # a connection each, and the watches of all are one descriptor; files are open for a moment
            await wait_until_async(
                lambda: fds(node.pid) - fds_before <= COUNT + 5, what="few are open", state=lambda: fds(node.pid)
            )
            os.write(go, b"\n" * COUNT)
        return crowd, threads

    crowd, threads = trio.run(run)
    os.close(go)

    assert crowd.outputs == {f"{number}.0.1": f"{number}.0.1\n".encode() for number in range(1, COUNT + 1)}
    # threads of the pool, at most as many as calls at the same moment
    assert threads < 50
    # the first line, the end, and seldom one more
    assert crowd.follows <= 4 * COUNT
    left = [path.name for path in node.paths.node_commands.iterdir() if not path.name.endswith(".gone")]
    assert sorted(left) == ["9.9.9.end", "9.9.9.live", "9.9.9.start", "output"]
    assert not any((node.paths.node_commands / "output").iterdir())

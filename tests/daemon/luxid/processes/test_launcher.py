"""luxid's connection to the fork server (protocol/forkserver.py)."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from daemons.luxid.processes.launcher import ForkServerClient, LauncherEvents
from protocol.framing import pack
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio


VERSION_2 = pack(b'{"success": true, "result": 2}')


@attrs.frozen
class Luxid:
    """luxid's end, and the listening socket of a fork server that the test plays."""

    client: ForkServerClient
    listener: trio.socket.SocketType
    # "connected" and "lost", as told
    told: list[str]

    async def accept(self, reply: bytes = VERSION_2) -> trio.socket.SocketType:
        """Take a connection, and answer its first question."""
        connection, _ = await self.listener.accept()
        assert b'"version"' in await connection.recv(4096)
        await connection.send(reply)
        return connection


@asynccontextmanager
async def luxid_in(folder: Path) -> AsyncIterator[Luxid]:
    paths, told = Paths.under_root(folder), list[str]()
    paths.make_folders()
    client = ForkServerClient(paths)
    events = LauncherEvents(
        connected=lambda: told.append("connected"), lost=lambda: told.append("lost"), exited=lambda _: None
    )
    with trio.socket.socket(trio.socket.AF_UNIX) as listener:
        await listener.bind(str(paths.forkserver_socket))
        listener.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run, events)
            yield Luxid(client, listener, told)
            nursery.cancel_scope.cancel()


async def test_a_connection_that_is_lost_is_made_again(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        first = await luxid.accept()
        await wait_until_async(lambda: luxid.told == ["connected"], what="it is connected")
        first.close()
        await wait_until_async(lambda: luxid.told == ["connected", "lost"], what="it is lost")
        with pytest.raises(Unavailable, match="is away"):
            await luxid.client.start(JobId(1))

        with await luxid.accept() as second:
            await wait_until_async(lambda: len(luxid.told) == 3, what="it is connected again")
            started = await luxid.client.start(JobId(2))
            async with started.stream:
                message, _, _, _ = await second.recvmsg(4096, socket.CMSG_SPACE(4))

        assert message == pack(b'{"jsonrpc":"2.0","method":"startJob","params":[2]}')


@pytest.mark.parametrize(
    "reply",
    [
        b'{"success": true, "result": 3}',
        b'{"success": false, "result": ["GenericError", ["unknown method"]]}',
        b'{"success": true, "result": "x"}',
        b"nonsense",
    ],
)
async def test_a_fork_server_of_other_code_gets_no_job(
    tmp_path: Path, reply: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with luxid_in(tmp_path) as luxid:
        with await luxid.accept(pack(reply)) as connection:
            assert await connection.recv(1) == b""
        with pytest.raises(Unavailable):
            await luxid.client.start(JobId(1))
        with await luxid.accept():
            await wait_until_async(lambda: luxid.told == ["connected"], what="it is connected")

    assert any("send it SIGHUP" in str(vars(record)) for record in caplog.records)


async def test_a_fork_server_that_does_not_read_makes_jobs_wait(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        with await luxid.accept():
            await wait_until_async(lambda: luxid.told == ["connected"], what="it is connected")

            async def start_without_end() -> None:
                while True:
                    async with (await luxid.client.start(JobId(1))).stream:
                        pass

            with pytest.raises(Unavailable, match="does not read"):
                await start_without_end()

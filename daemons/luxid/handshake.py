"""The handshake with a process that was just made, from luxid's end.

Until the go-ahead the process does nothing but hold its livelock. So luxid needs to write nothing into
the job file before it knows path and pid: whatever ends in between, luxid or the process, leaves a job
that says queued, and a process that ends when it finds its socket closed. The job is started again, once.

Source: protocol/forkserver.py; luxid.md 9.1.
"""

import os
from typing import Final

import orjson
import trio

from common.errors import GantryError
from protocol.forkserver import GO_AHEAD, WANT_SECRETS
from protocol.framing import Framer, pack

_LIMIT: Final = 64 * 2**10
_CHUNK: Final = 4096


class StartFailed(GantryError):
    """the job's process ended before it was told to start"""


class Handshake:
    """The messages of one start, in order: `livelock`, then `give_go_ahead`."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._framer = Framer(_LIMIT)
        self._messages: list[bytes] = []

    async def livelock(self) -> str:
        """The absolute path of the livelock that the process holds.

        Raises: StartFailed: it ended, or sent something else.
        """
        message = await self._receive()
        path = message.decode("utf-8", "replace")
        if not os.path.isabs(path) or "\0" in path or "\ufffd" in path:
            raise StartFailed(f"the job's process sent {message[:80]!r} instead of its livelock's path")
        return path

    async def give_go_ahead(self, op_count: int) -> None:
        """Tell the process to start, and give it the secrets it asks for: none so far, one null an opcode.

        Raises: StartFailed: it is gone, or sent something else.
        """
        await self._send(GO_AHEAD)
        message = await self._receive()
        if message != WANT_SECRETS:
            raise StartFailed(f"the job's process sent {message[:80]!r} instead of asking for its secrets")
        await self._send(orjson.dumps([None] * op_count))

    async def _send(self, message: bytes) -> None:
        try:
            await self._stream.send_all(pack(message))
        except (trio.BrokenResourceError, OSError) as error:
            raise StartFailed from error

    async def _receive(self) -> bytes:
        while not self._messages:
            try:
                received = await self._stream.receive_some(_CHUNK)
            except (trio.BrokenResourceError, OSError) as error:
                raise StartFailed from error
            if not received:
                raise StartFailed
            self._messages += self._framer.feed(received)
        return self._messages.pop(0)

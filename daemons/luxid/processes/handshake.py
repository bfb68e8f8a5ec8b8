"""The handshake with a newly made process, from luxid's side.

Until the go-ahead the process only holds its livelock. So if luxid or the process ends before that, the job is still
queued, and the process ends when it finds its socket closed. The job is started again, once.

Source: protocol/forkserver.py; luxid.md 9.1.
"""

import os
from typing import Final

import orjson
import trio

from common.errors import GantryError, Unavailable
from protocol.forkserver import GO_AHEAD, REFUSAL, WANT_SECRETS, WANT_SECRETS_AND_PAUSES, Secrets
from protocol.framing import Framer, pack

_LIMIT: Final = 64 * 2**10
_CHUNK: Final = 4096


class StartFailed(GantryError):
    """the job's process ended before it was told to start"""


class NoAnswer(StartFailed):
    """the job's process did not answer in time; it may only be slow"""


class Handshake:
    """The messages of one start, in order: `livelock`, then `give_go_ahead`.

    Args:
        timeout_s: of each message.
    """

    def __init__(self, stream: trio.abc.Stream, timeout_s: float) -> None:
        self._stream = stream
        self._timeout_s = timeout_s
        self._framer = Framer(_LIMIT)
        self._messages: list[bytes] = []

    async def livelock(self) -> str:
        """Receive the absolute path of the livelock that the process holds.

        Raises:
            StartFailed: the process ended, or sent something else.
            NoAnswer: it sent nothing in time.
            Unavailable: it cannot start at the moment, with the reason.
        """
        message = await self._receive()
        if message.startswith(REFUSAL):
            raise Unavailable(f"the job's process cannot start: {message[len(REFUSAL) :].decode('utf-8', 'replace')}")
        path = message.decode("utf-8", "replace")
        if not os.path.isabs(path) or "\0" in path or "\ufffd" in path:
            raise StartFailed(f"the job's process sent {message[:80]!r} instead of its livelock's path")
        return path

    async def give_go_ahead(self, secrets: Secrets, *, asks: bool) -> bool:
        """Tell the process to start, and send it its secrets.

        Args:
            secrets: for each opcode its secret parameters, or None.
            asks: whether the process requests them after the go-ahead.
        Returns: whether the process supports requests to pause.
        Raises: StartFailed: it is gone, or sent something else.
        """
        if not asks:
            await self._send(GO_AHEAD, orjson.dumps(secrets))
            return True
        await self._send(GO_AHEAD)
        message = await self._receive()
        if message not in (WANT_SECRETS, WANT_SECRETS_AND_PAUSES):
            raise StartFailed(f"the job's process sent {message[:80]!r} instead of asking for its secrets")
        await self._send(orjson.dumps(secrets))
        return message == WANT_SECRETS_AND_PAUSES

    async def _send(self, *messages: bytes) -> None:
        try:
            with trio.fail_after(self._timeout_s):
                await self._stream.send_all(b"".join(map(pack, messages)))
        except trio.TooSlowError:
            raise self._no_answer() from None
        except (trio.BrokenResourceError, OSError) as error:
            raise StartFailed from error

    async def _receive(self) -> bytes:
        try:
            with trio.fail_after(self._timeout_s):
                while not self._messages:
                    received = await self._stream.receive_some(_CHUNK)
                    if not received:
                        raise StartFailed
                    self._messages += self._framer.feed(bytes(received))
        except trio.TooSlowError:
            raise self._no_answer() from None
        except (trio.BrokenResourceError, OSError) as error:
            raise StartFailed from error
        return self._messages.pop(0)

    def _no_answer(self) -> NoAnswer:
        return NoAnswer(f"no answer from the job's process within {self._timeout_s:g} s")

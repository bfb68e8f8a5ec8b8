"""luxid's feed for trio programs: a subscription that survives luxid's restarts.

Source: `protocol.luxi.feed`.
"""

from collections.abc import Callable
from pathlib import Path

import trio

from common.errors import RemoteError, Unavailable
from protocol.client import Client
from protocol.dial import FIRST_PAUSE_S, LONGEST_PAUSE_S, pauses
from protocol.luxi.feed import FeedBegin, FeedChanges, Subscribe, read_changes
from protocol.luxi.feedplace import FeedPlace
from protocol.speaker import Speaker


def _ignore() -> None:
    pass


class LuxidFeed:
    """A beginning, then changes, in order; for one task.

    After a lost connection it continues where it was, if luxid can; a beginning says so.

    Args:
        speaker: user in whose name to subscribe; None: this process.
        lost: called when luxid is away, once until it is back.
    """

    def __init__(
        self, path: Path, asked: Subscribe, speaker: Speaker | None = None, lost: Callable[[], None] = _ignore
    ) -> None:
        self._client = Client(path, daemon="luxid")
        self._place = FeedPlace(asked)
        self._speaker = speaker
        self._lost = lost
        self._pause_s = FIRST_PAUSE_S
        # pauses after refusals in a row
        self._refusals = pauses()
        self.is_connected = False

    async def next(self) -> FeedBegin | FeedChanges:
        """Wait for the next event, however long luxid is away.

        Raises: Denied, RemoteError: luxid refuses the subscription. ProtocolError, InvalidRequest: another luxid.
        Cancellation: safe; the next call begins with a beginning.
        """
        while True:
            try:
                return await self._read() if self.is_connected else await self._connect()
            except Unavailable:
                if self.is_connected:
                    self._lost()
                await self._pause()
            except RemoteError as error:
                if error.code != Unavailable.code:
                    raise
                # too slow, or luxid lacks something: it is there, and may say the same again at once
                self.is_connected = False
                await trio.sleep(next(self._refusals))
            except trio.Cancelled:
                self.is_connected = False
                raise
            self.is_connected = False

    @property
    def position(self) -> str | None:
        """The place up to which everything was read."""
        return self._place.position

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _pause(self) -> None:
        # after a lost connection the first attempt is made at once: luxid may be back
        if not self.is_connected:
            await trio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    async def _connect(self) -> FeedBegin:
        begun = await self._client.subscribe(self._place.request(), self._speaker)
        self.is_connected = True
        self._pause_s = FIRST_PAUSE_S
        self._place.begin(begun)
        return begun

    async def _read(self) -> FeedChanges:
        while True:
            told = read_changes(*await self._client.event())
            if told is not None:
                self._refusals = pauses()
                self._place.go_on(*told)
                return told[1]

"""luxid's feed for trio programs: a subscription that survives luxid's restarts.

Source: `protocol.luxi.feed`.
"""

from collections.abc import Callable
from pathlib import Path

from protocol.client import Client
from protocol.lastingfeed import LastingFeed, nothing
from protocol.luxi.feed import FeedBegin, FeedChanges, Subscribe, read_changes
from protocol.luxi.feedplace import FeedPlace
from protocol.speaker import Speaker


class LuxidFeed:
    """A beginning, then changes, in order; for one task.

    After a lost connection it continues where it was, if luxid can; a beginning says so.

    Args:
        speaker: user in whose name to subscribe; None: this process.
        lost: called when luxid is away, once until it is back.
    """

    def __init__(
        self, path: Path, asked: Subscribe, speaker: Speaker | None = None, lost: Callable[[], None] = nothing
    ) -> None:
        self._client = Client(path, daemon="luxid")
        self._place = FeedPlace(asked)
        self._speaker = speaker
        self._feed = LastingFeed[FeedBegin | FeedChanges](self._begin, self._read, lost)

    async def next(self) -> FeedBegin | FeedChanges:
        """Wait for the next event, however long luxid is away.

        Raises: Denied, RemoteError: luxid refuses the subscription. ProtocolError, InvalidRequest: another luxid.
        Cancellation: safe; the next call begins with a beginning.
        """
        return await self._feed.next()

    @property
    def position(self) -> str | None:
        """The place up to which everything was read."""
        return self._place.position

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _begin(self) -> FeedBegin:
        begun = await self._client.subscribe(self._place.request(), self._speaker)
        self._place.begin(begun)
        return begun

    async def _read(self) -> FeedChanges | None:
        told = read_changes(*await self._client.event())
        if told is None:
            return None
        self._place.go_on(*told)
        return told[1]

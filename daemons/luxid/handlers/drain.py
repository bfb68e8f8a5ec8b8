"""The queue as a whole: the drain flag; also the pause of the watcher, which is a file, too.

Source: luxid.md 2.2, 2.7.
"""

from typing import Final

from common.durable.atomicfile import FileWrite
from common.errors import InvalidRequest, Unavailable
from common.system.log import get_log
from daemons.luxid.feednews import FeedNews
from daemons.luxid.files.store import Store
from protocol.luxi.queue import SetDrainFlag, SetWatcherPause
from protocol.peer import Peer

_log: Final = get_log(__name__)
# seconds since the epoch: the year 9999, the last that clocks can show
_LATEST: Final = 253_402_300_800


class Queue:
    """The methods about the queue as a whole."""

    def __init__(self, store: Store, news: FeedNews) -> None:
        self._store = store
        self._news = news
        self._files = store.files

    async def set_drain_flag(self, call: SetDrainFlag, peer: Peer) -> bool:
        await self._store.set_drained(call.drain)
        self._news.queue_changed()
        _log.info("queue.drain", drained=call.drain, **peer.named)
        return True

    async def set_watcher_pause(self, call: SetWatcherPause, peer: Peer) -> float | None:
        """An instant in the past is stored as well: the watcher goes on.

        Raises: InvalidRequest: clocks cannot show the instant. Unavailable: the disk refused.
        """
        if call.until is not None and not 0 <= call.until < _LATEST:
            raise InvalidRequest(f"the pause cannot end at {call.until}; give seconds since the epoch, to year 9999")
        path = self._store.paths.watcher_pause
        try:
            if call.until is None:
                await self._files.remove([path])
            else:
                await self._files.replace([FileWrite(path, f"{int(call.until)}\n".encode(), 0o644)])
        except OSError as error:
            raise Unavailable(f"the watcher's pause cannot be written: {error.strerror or error}") from error
        _log.info("watcher.pause", until=call.until, **peer.named)
        return call.until

"""Prepare the move of the mastership to another node; asked by keeperd."""

from typing import Final

from common.system.log import get_log
from daemons.luxid.processes.makingway import MakingWay
from protocol.luxi.daemon.moving import PrepareMove
from protocol.peer import Peer
from protocol.stream import BACKLOG_LIMIT, Stream

_log: Final = get_log(__name__)


class MastershipMove:
    """The method that prepares it; the caller's connection keeps luxid so."""

    def __init__(self, making_way: MakingWay) -> None:
        self._making_way = making_way
        self._streams: set[Stream[object]] = set()

    async def prepare_move(self, call: PrepareMove, peer: Peer) -> Stream[None]:
        """Cancellation: when the caller hangs up; then work is taken again."""
        self._making_way.begin()
        try:
            await self._making_way.until_nothing_runs(kill=call.kill)
        except BaseException:
            self._making_way.end()
            raise
        _log.info("master.made_way", **peer.named)
        stream: Stream[None] = Stream(self, None, BACKLOG_LIMIT)
        self._streams.add(stream)
        return stream

    def forget(self, stream: Stream[object]) -> None:
        """The caller has hung up."""
        if stream in self._streams:
            self._streams.discard(stream)
            _log.info("master.goes_on", reason="the mastership stays here")
            self._making_way.end()

"""The queue as a whole: the drain flag.

Source: luxid.md 2.7.
"""

from typing import Final

from common.log import get_log
from daemons.luxid.scheduler import Scheduler
from protocol.luxi import SetDrainFlag
from protocol.peer import Peer

_log: Final = get_log(__name__)


class Queue:
    """The methods about the queue as a whole."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._store = scheduler.store

    async def set_drain_flag(self, call: SetDrainFlag, peer: Peer) -> bool:
        await self._store.set_drained(call.drain)
        _log.info("queue.drain", drained=call.drain, uid=peer.uid, client_pid=peer.pid)
        return True

"""Keep etcd in order while this node is the master: compaction, room, alarms.

Source: lease.md 5.
"""

from collections.abc import Callable, Sequence
from typing import Final

import trio

from common.system.log import get_log
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.words import State
from protocol.etcd.client import EtcdClient
from protocol.etcd.errors import EtcdError
from protocol.etcd.keeping.upkeep import Upkeep
from protocol.etcd.keeping.upkeepwords import problems

_INTERVAL_S: Final = 60.0
_log: Final = get_log(__name__)


class StoreKeeping:
    def __init__(self, client: EtcdClient) -> None:
        self._upkeep = Upkeep(client)
        self._is_full = False
        self._hurry = trio.Event()
        # what was wrong with etcd, in words for operators, when it was looked at last
        self.problems: Sequence[str] = ()

    def hear(self, keeper: Keeper) -> None:
        """Take in the next state of keeperd: an etcd that is full is looked after at once."""
        is_full = keeper.view is not None and keeper.view.is_full
        if is_full and not self._is_full:
            self._hurry.set()
        self._is_full = is_full

    async def run(self, keeper: Callable[[], Keeper | None]) -> None:
        """For ever."""
        while True:
            self._hurry = trio.Event()
            present = keeper()
            if present is not None and present.state in (State.MASTER, State.SHAKY):
                try:
                    self.problems = problems(await self._upkeep.keep())
                except EtcdError as error:
                    _log.warning("upkeep.failed", reason=error.message, retry_s=_INTERVAL_S)
            else:
                self.problems = ()
            with trio.move_on_after(_INTERVAL_S):
                await self._hurry.wait()

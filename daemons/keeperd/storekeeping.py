"""Keep etcd in order while this node is the master: compaction, room, alarms; luxid hears how full it is.

Source: lease.md 5.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import trio

from common.lease.deadline import FullnessWriter
from common.lease.records import EtcdKeys, Fullness
from common.system.log import get_log
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.states import State
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import EtcdError, Put, Transaction
from protocol.etcd.upkeep import Upkeep
from protocol.etcd.upkeepplan import problems

_INTERVAL_S: Final = 60.0
# while it fills up
_FILLING_S: Final = 10.0
_MASTERS: Final = (State.MASTER, State.SHAKY)
_log: Final = get_log(__name__)


class StoreKeeping:
    """Args: fullness: where the daemons of the master see how full etcd is."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, fullness: FullnessWriter) -> None:
        self._client = client
        self._keys = keys
        self._upkeep = Upkeep(client)
        self._fullness = fullness
        self._level = Fullness.FINE
        self._is_full = self._is_master = False
        self._hurry = trio.Event()
        # what was wrong with etcd, in words for operators, when it was looked at last
        self.problems: Sequence[str] = ()

    def hear(self, keeper: Keeper) -> None:
        """Take in the next state of keeperd: an etcd that is full, or one's own, is looked after at once."""
        is_full = keeper.view is not None and keeper.view.is_full
        is_master = keeper.state in _MASTERS
        if (is_full and not self._is_full) or (is_master and not self._is_master):
            self._hurry.set()
        self._is_full, self._is_master = is_full, is_master

    async def run(self, keeper: Callable[[], Keeper | None]) -> None:
        """For ever."""
        while True:
            self._hurry = trio.Event()
            present = keeper()
            if present is not None and present.state in _MASTERS:
                try:
                    await self._stir()
                    look = await self._upkeep.keep()
                except EtcdError as error:
                    _log.warning("upkeep.failed", reason=error.message, retry_s=_INTERVAL_S)
                else:
                    self.problems = problems(look)
                    # silence does not make it empty
                    if look.knows_fullness:
                        self._tell(look.fullness)
            else:
                self.problems = ()
                self._tell(Fullness.FINE)
            with trio.move_on_after(_INTERVAL_S if self._level < Fullness.SLOW else _FILLING_S):
                await self._hurry.wait()

    async def _stir(self) -> None:
        """Change something, if etcd fills up: only with a next change what was compacted counts as free."""
        if Fullness.FINE < self._level < Fullness.FULL:
            with contextlib.suppress(EtcdError):
                await self._client.transact(Transaction((), (Put(self._keys.upkeep, b""),)))

    def _tell(self, level: Fullness) -> None:
        if level is not self._level:
            _log.warning("etcd.fullness", level=level.name.lower(), before=self._level.name.lower())
        self._level = level
        self._fullness.set(level)

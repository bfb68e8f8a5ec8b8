"""Whether this node may still write, as the stores of a daemon ask it.

Theory. A daemon is started on the master only, so it begins as one. Once a way of replication says that another node
has taken over, this cannot be undone: every later write is refused in the same words, and the daemon ends.

Source: DESIGN section 14.
"""

from typing import Final, NoReturn

import trio

from common.replication import NoLongerMaster
from common.system.log import get_log

_log: Final = get_log(__name__)


class Mastership:
    """The mastership of this node; for one event loop and its threads.

    Args:
        daemon: who writes, for the operator.
    """

    def __init__(self, daemon: str) -> None:
        self._daemon = daemon
        # None: it is held
        self._loss: NoLongerMaster | None = None
        self._is_lost = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None

    @property
    def is_held(self) -> bool:
        return self._loss is None

    def check(self) -> None:
        """Raises: NoLongerMaster: it is lost; nothing may be written."""
        if self._loss is not None:
            raise self._loss

    def lose(self, error: NoLongerMaster) -> NoLongerMaster:
        """Note what a way of replication has said; in any thread. Returns what callers are to be told."""
        if self._loss is None:
            _log.error("master.lost", reason=error, effect=f"{self._daemon} ends and writes nothing more")
            self._loss = NoLongerMaster(
                f"this node is no longer the master: {error.message}; {self._daemon} ends and writes nothing more "
                "here, ask the new master"
            )
            if self._token is not None:
                self._token.run_sync_soon(self._is_lost.set)
        return self._loss

    async def until_lost(self) -> NoReturn:
        """Wait until it is lost, and end with that.

        Raises: NoLongerMaster: its text is for the operator.
        """
        self._token = trio.lowlevel.current_trio_token()
        while self._loss is None:
            await self._is_lost.wait()
        raise self._loss

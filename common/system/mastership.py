"""Whether this node may still write; the stores of a daemon ask this.

Theory. A daemon is started only on the master, so it begins as one. When a way of replication reports that another
node has taken over, this cannot be undone: every later write is refused with the same message, and the daemon ends.

Source: DESIGN section 14.
"""

from typing import Final, NoReturn

import trio

from common.replica.replica import NoLongerMaster
from common.system.log import get_log

_log: Final = get_log(__name__)


class OwnMastershipState:
    """The mastership of this node; for one event loop and its threads.

    Args:
        daemon: name of the daemon that writes, for messages.
    """

    def __init__(self, daemon: str) -> None:
        self._daemon = daemon
        # the loss; None: mastership is held
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
        """Record the error of a way of replication; callable in any thread. Returns the error for callers."""
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
        """Wait until mastership is lost.

        Raises: NoLongerMaster: with a message for the operator.
        """
        self._token = trio.lowlevel.current_trio_token()
        while self._loss is None:
            await self._is_lost.wait()
        raise self._loss

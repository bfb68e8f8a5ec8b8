"""What keeperd does beside its machine: at most one task for each kind of work.

Source: DESIGN section 14; lease.md 7.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from common.errors import GantryError
from common.system.log import get_log

_log: Final = get_log(__name__)


class Tasks:
    """Args: nursery: of the machine's loop; all tasks end with it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        # kind of work -> what ends it
        self._running: dict[str, trio.CancelScope] = {}

    def begin(self, kind: str, work: Callable[..., Awaitable[object]], *args: object) -> None:
        """Do this beside the machine; what is under way of this kind ends."""
        self.end(kind)
        scope = self._running[kind] = trio.CancelScope()
        self._nursery.start_soon(self._work, kind, scope, work, *args)

    def end(self, *kinds: str) -> None:
        for kind in kinds:
            if (scope := self._running.pop(kind, None)) is not None:
                scope.cancel()

    def runs(self, kind: str) -> bool:
        return kind in self._running

    def finish(self, work: Callable[..., Awaitable[object]], *args: object) -> None:
        """Do this to its end, also while keeperd ends."""
        self._nursery.start_soon(self._shielded, work, *args)

    async def _work(
        self, kind: str, scope: trio.CancelScope, work: Callable[..., Awaitable[object]], *args: object
    ) -> None:
        with scope:
            try:
                await work(*args)
            except (GantryError, OSError) as error:
                reason = error.message if isinstance(error, GantryError) else error
                _log.error("work.failed", work=kind, reason=reason)
        if self._running.get(kind) is scope:
            del self._running[kind]

    async def _shielded(self, work: Callable[..., Awaitable[object]], *args: object) -> None:
        with trio.CancelScope(shield=True):
            await work(*args)

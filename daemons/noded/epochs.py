"""The epoch: a number that each new master raises, so that calls of an old one are refused.

Theory. Gantry's masters send their epoch with every call. The highest one seen is durable before any call under it is
carried out, so it also holds after a crash. A higher epoch first waits for the calls of lower ones to end: nothing of
an old master is written after the new one has been heard. Calls without an epoch come from Ganeti's daemons, which
know none; they are not judged here.

Source: DESIGN sections 12 and 14.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import Conflict
from common.nodes.epochs import read_epoch
from common.system.inthread import in_thread
from common.system.log import get_log

_MODE: Final = 0o640
_log: Final = get_log(__name__)


class StaleEpoch(Conflict):
    """another node has become the master since"""


class Epochs:
    """The highest epoch that this node has seen, and the calls that are carried out under each.

    Raises: DamagedFile, OSError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._highest = read_epoch(path)
        self._raising = trio.Lock()
        # epoch -> number of calls under way, never 0
        self._running: Counter[int] = Counter()
        self._ended = trio.Event()

    @property
    def highest(self) -> int:
        return self._highest

    @asynccontextmanager
    async def admitted(self, epoch: int | None, *, changes: bool) -> AsyncIterator[None]:
        """Carry out a call of this epoch within the context.

        Args:
            epoch: None: the caller knows none.
            changes: whether the call changes anything; a higher epoch then waits for its end.
        Raises: StaleEpoch: a higher one has been seen. OSError: a higher epoch could not be made durable.
        Durability: the epoch is durable when the context begins.
        """
        if epoch is None:
            yield
            return
        if epoch > self._highest:
            await self._raise_to(epoch)
        while epoch == self._highest and any(running < epoch for running in self._running):
            await self._ended.wait()
        if epoch < self._highest:
            raise StaleEpoch(
                f"the caller's epoch is {epoch}, and this node has seen {self._highest}: another node has become the "
                "master since; the caller must stop",
                epoch=self._highest,
            )
        if not changes:
            yield
            return
        self._running[epoch] += 1
        try:
            yield
        finally:
            self._end(epoch)

    async def _raise_to(self, epoch: int) -> None:
        async with self._raising:
            if epoch <= self._highest:
                return
            await in_thread(durably, lambda: write_file(self._path, f"{epoch}\n".encode(), mode=_MODE))
            before, self._highest = self._highest, epoch
            _log.info("epoch.raised", epoch=epoch, before=before)

    def _end(self, epoch: int) -> None:
        self._running[epoch] -= 1
        if not self._running[epoch]:
            del self._running[epoch]
        self._ended.set()
        self._ended = trio.Event()

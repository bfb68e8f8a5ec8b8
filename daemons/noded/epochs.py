"""The epoch: a number that each new master raises, so that calls of an old one are refused.

Theory. Gantry's masters send their epoch with every call. The highest one seen is durable before any call under it is
carried out, so it also holds after a crash. A higher epoch first waits for the calls of lower ones to end: nothing of
an old master is written after the new one has been heard. Calls without an epoch come from Ganeti's daemons, which
know none; they are not judged here.

A node that is becoming the master claims its epoch: a node grants each number to one node only, so that of two that
claim the same, at most one gets more than half of the nodes.

Source: DESIGN sections 12 and 14.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from common.errors import Conflict
from common.nodes.mastership import SeenEpoch, newer_master, read_seen
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.noded.files.places import put_file

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
        self._seen = read_seen(path)
        self._raising = trio.Lock()
        # epoch -> number of calls under way, never 0
        self._running: Counter[int] = Counter()
        self._ended = trio.Event()
        self._raised = trio.Event()

    @property
    def highest(self) -> int:
        return self._seen.number

    @property
    def raised(self) -> trio.Event:
        """Set when a higher epoch is seen than now."""
        return self._raised

    async def claim(self, number: int, master: str) -> None:
        """Let this node be the master under this epoch: return when nothing is carried out under lower ones any more.

        Raises: StaleEpoch: a higher one has been seen, or this one is another's. OSError: it could not be made durable.
        Durability: on return the claim survives a loss of power.
        """
        claimed = SeenEpoch(number, master)
        if number > self.highest:
            await self._raise_to(claimed)
        if self._seen != claimed:
            text = f"{master} cannot have epoch {number}, this node has seen {self.highest}"
            raise StaleEpoch(f"{text}: {newer_master(self._seen)}", epoch=self.highest)
        await self._until_lower_end(number)

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
        if epoch > self.highest:
            await self._raise_to(SeenEpoch(epoch))
        await self._until_lower_end(epoch)
        if epoch < self.highest:
            raise StaleEpoch(
                f"the caller's epoch is {epoch}, and this node has seen {self.highest}: another node has become the "
                "master since; the caller must stop",
                epoch=self.highest,
            )
        if not changes:
            yield
            return
        self._running[epoch] += 1
        try:
            yield
        finally:
            self._end(epoch)

    async def _until_lower_end(self, epoch: int) -> None:
        """Wait for the calls under lower epochs; not once a higher one than this has been seen."""
        while epoch == self.highest and any(running < epoch for running in self._running):
            await self._ended.wait()

    async def _raise_to(self, epoch: SeenEpoch) -> None:
        async with self._raising:
            if epoch.number <= self.highest:
                return
            # also for the daemons of the master, which read it
            await in_thread(put_file, self._path, f"{epoch}\n".encode(), _MODE)
            before, self._seen = self._seen, epoch
            _log.info("epoch.raised", epoch=epoch.number, master=epoch.master, before=before.number)
            self._raised.set()
            self._raised = trio.Event()

    def _end(self, epoch: int) -> None:
        self._running[epoch] -= 1
        if not self._running[epoch]:
            del self._running[epoch]
        self._ended.set()
        self._ended = trio.Event()

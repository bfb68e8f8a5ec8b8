"""Make durable what other processes have renamed in a folder.

Theory. The reader of a file that was just put in place may not know whether that rename is durable; an fsync of the
folder makes it so, no matter which process renamed. All callers that arrive during one fsync share the next one. The
cost is small: if the other process has synced, or does so at the same time, the disk has nothing more to write.
"""

from pathlib import Path

import trio

from common.durable.durably import RETRY_S, tell_durable, tell_not_durable
from common.durable.folders import NotYetDurable, sync_folders
from common.system.inthread import in_thread


class FolderSync:
    """Syncs one folder for many callers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = trio.Lock()
        # a limiter of its own: a sync does not wait behind other work of the daemon's threads
        self._limiter = trio.CapacityLimiter(1)
        # numbers of calls: the last one so far, and the last one covered by a finished fsync
        self._asked = self._served = 0
        self.fsyncs = 0

    async def sync(self) -> None:
        """Return when all renames in the folder before this call are durable, however long that takes.

        Cancellation: at any time; nothing is lost by it.
        """
        self._asked = number = self._asked + 1
        async with self._turn:
            if self._served < number:
                covered = self._asked
                await self._sync()
                self._served = covered

    async def _sync(self) -> None:
        failed: NotYetDurable | None = None
        while (error := await self._try()) is not None:
            if failed is None:
                tell_not_durable(error)
            failed = error
            await trio.sleep(RETRY_S)
        if failed is not None:
            tell_durable(failed)

    async def _try(self) -> NotYetDurable | None:
        self.fsyncs += 1
        try:
            await in_thread(sync_folders, [self._folder], limiter=self._limiter)
        except NotYetDurable as error:
            return error
        return None

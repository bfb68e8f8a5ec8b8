"""The totals of resources in force, which wconfd keeps.

Until they were read once, jobs that use resources wait; all others run.

Source: DESIGN section 16.
"""

from typing import Final

import trio

from common.errors import GantryError
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.luxid.scheduler import Scheduler
from protocol.client import Client
from protocol.wconfd.resources import ReadResources
from protocol.wconfd.subscribe import RESOURCES

_log: Final = get_log(__name__)


class ResourceTotals:
    """Keeps the queue's totals equal to wconfd's; start `run`.

    Args:
        wconfd: a client of its own.
        is_ready: is set when the units that jobs were found with are counted; before, no totals are told.
    """

    def __init__(self, scheduler: Scheduler, wconfd: Client, is_ready: trio.Event) -> None:
        self._scheduler = scheduler
        self._wconfd = wconfd
        self._is_ready = is_ready
        self._has_news = trio.Event()
        # one at a time, so that older totals never replace newer ones
        self._turn = trio.Lock()

    def changed(self, what: str | None) -> None:
        """Take note of a change in wconfd. Args: what: as for `Following.on_kept`."""
        if what in (None, RESOURCES):
            self._has_news.set()

    async def run(self) -> None:
        """Follow the totals, until cancelled."""
        await self._is_ready.wait()
        while True:
            await self._has_news.wait()
            self._has_news = trio.Event()
            for pause_s in retry_pauses():
                try:
                    await self.refresh()
                    break
                except GantryError as error:
                    _log.warning("resources.not_read", reason=error, effect="totals stay as they were", retry_s=pause_s)
                await trio.sleep(pause_s)

    async def refresh(self) -> None:
        """Put the present totals in force; nothing happens before luxid knows who has units. Raises: GantryError."""
        if not self._is_ready.is_set():
            return
        async with self._turn:
            resources = await self._wconfd.call(ReadResources())
            self._scheduler.resources_changed(resources)

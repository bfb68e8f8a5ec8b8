"""Look at etcd when the machine asks for it, when a key changes, and now and then.

Source: DESIGN section 14; lease.md 7.
"""

import random
from collections.abc import Callable
from typing import Final

import trio

from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.keeperd.core.events import EtcdSilent, Event, Looked
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.keys import ClusterViewer
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import EtcdCorrupt, EtcdError

_log: Final = get_log(__name__)


class Looker:
    """Args: report: tells the machine. keeper: the present one; None: keeperd is just starting."""

    def __init__(self, report: Callable[[Event], None], keeper: Callable[[], Keeper | None]) -> None:
        self._report = report
        self._keeper = keeper
        self._look_again = trio.Event()
        # whether the next look is at another member of etcd than the last one
        self._looks_elsewhere = False

    async def look(self, poll_s: float, viewer: ClusterViewer) -> None:
        """Read etcd when it is asked for, and each `poll_s` seconds; for ever."""
        while True:
            self._look_again = trio.Event()
            elsewhere, self._looks_elsewhere = self._looks_elsewhere, False
            try:
                view = await viewer.look(elsewhere=elsewhere)
            except EtcdError as error:
                _log.warning("etcd.silent", reason=error.message)
                self._report(EtcdSilent(is_corrupt=isinstance(error, EtcdCorrupt)))
            else:
                self._report(Looked(view, jitter=random.random()))
            with trio.move_on_after(poll_s):
                await self._look_again.wait()

    async def watch(self, client: EtcdClient, prefix: str) -> None:
        """Look at once when a key that begins so changes; for ever. A hint only: looks come without it, too."""
        pauses = retry_pauses()
        while True:
            keeper = self._keeper()
            if keeper is not None and keeper.view is not None:
                try:
                    async with client.watch(prefix, keeper.view.revision) as events:
                        pauses = retry_pauses()
                        async for _ in events:
                            self.look_now()
                except EtcdError as error:
                    _log.debug("watch.ended", prefix=prefix, reason=error.message)
                self.look_now()
            await trio.sleep(next(pauses))

    def look_now(self) -> None:
        """Something has changed in etcd."""
        self._look_again.set()

    def look_at(self, *, elsewhere: bool) -> None:
        """The machine asks for a look. Args: elsewhere: at another endpoint than the last one."""
        self._looks_elsewhere = elsewhere
        self.look_now()

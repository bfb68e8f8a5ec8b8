"""Owners that are dead: found by events, freed at once.

The kernel closes the files of a process that dies, and inotify tells of it. What is told is not
believed but probed. A sweep at the start, and then now and then as a backstop, looks at every owner
that any table knows; one that it finds dead later than at the start is a missed event, and counted.

Source: daemons design, "Liveness"; wconfd.md 6.4; DESIGN section 5.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import trio

from common.errors import Unavailable
from common.livelock import PROBE_AGAIN_AFTER_S, is_alive
from common.locks import Owner
from common.log import get_log
from common.watch import EventKind, FolderWatch
from daemons.wconfd.core.waiting import free_all
from daemons.wconfd.lockstore import LockStore

_DEATH: Final = EventKind.CLOSE_WRITE | EventKind.DELETE | EventKind.MOVED_FROM
_log: Final = get_log(__name__)


class Deaths:
    """Frees what dead owners hold or wait for.

    Args:
        grace_s: a livelock file younger than this is not deleted: its maker may not have locked it yet.
    """

    def __init__(self, locks: LockStore, folder: Path, *, grace_s: float) -> None:
        self._locks = locks
        self._folder = folder
        self._grace_s = grace_s
        # deaths that only the sweep found
        self.swept = 0

    async def follow(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Free dead owners as they die; started when the folder is watched, and all found dead then are freed."""
        async with FolderWatch(self._folder, kinds=_DEATH) as watch, trio.open_nursery() as nursery:
            await self.clean_up()
            task_status.started()
            while True:
                events = await watch.events()
                if any(event.needs_rescan for event in events):
                    await self.clean_up()
                paths = {str(self._folder / event.name) for event in events}
                for path in paths & self._livelocks():
                    nursery.start_soon(self._probe, path)

    async def sweep(self, every_s: float) -> None:
        """The backstop, until cancelled."""
        while True:
            await trio.sleep(every_s)
            found = await self.clean_up()
            if found:
                self.swept += found
                _log.warning("sweep.found_dead", owners=found, effect="freed now; no event told of it")
            self._remove_stale_files()

    async def clean_up(self) -> int:
        """Look at every owner now; answers how many were dead.

        Raises: nothing; what could not be written is tried again by the next sweep.
        """
        dead = [path for path in self._livelocks() if not is_alive(path)]
        for path in dead:
            await self._bury(path)
        return len(dead)

    def _livelocks(self) -> frozenset[str]:
        return frozenset(owner.livelock for owner in self._locks.state.owners())

    async def _probe(self, path: str) -> None:
        for pause_s in (0.0, *PROBE_AGAIN_AFTER_S):
            await trio.sleep(pause_s)
            if not is_alive(path):
                await self._bury(path)
                return

    async def _bury(self, path: str) -> None:
        """Free all owners of a livelock whose process is dead, and delete the file."""
        for owner in self._owners(path):
            try:
                await self._locks.change(lambda state, owner=owner: free_all(state, owner))  # type: ignore[misc]
            except Unavailable as error:
                _log.error("owner.not_freed", owner=owner, reason=error, retry="by the next sweep")
                return
            _log.info("owner.died", owner=owner, livelock=path)
        # an owner may name any path; only livelocks are ours to delete
        if Path(path).parent == self._folder:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _owners(self, path: str) -> Iterable[Owner]:
        return [owner for owner in self._locks.state.owners() if owner.livelock == path]

    def _remove_stale_files(self) -> None:
        """Delete livelocks that nobody holds: of owners that had no locks, and of crashes in mid-creation."""
        young = time.time() - self._grace_s
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                with contextlib.suppress(OSError):
                    if entry.stat().st_mtime < young and not is_alive(entry.path):
                        os.unlink(entry.path)

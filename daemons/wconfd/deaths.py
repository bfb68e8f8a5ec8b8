"""Owners that are dead: found by events, freed at once.

The kernel closes the files of a process that dies, and inotify tells of it. What is told is not
believed but probed. A sweep at the start, and then now and then as a backstop, looks at every owner
that any table knows; one that it finds dead later than at the start is a missed event, and counted.

A death that could not be written down (a full disk) is tried again each second until it is.

The livelock of a process that never asked for anything is deleted too, by the event of its death or at the start,
once it is old enough: the maker of a younger one may not have locked it yet. Who lives keeps its own,
be it luxid or this daemon.

Source: daemons design, "Liveness"; wconfd.md 6.4; DESIGN section 5.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, Protocol, assert_never

import trio

from common.errors import GantryError
from common.locks import Owner
from common.system.deathprobe import is_found_dead
from common.system.livelock import PROBE_AGAIN_AFTER_S, Life, is_alive, probe
from common.system.log import get_log
from common.system.watch import EventKind, FolderWatch
from daemons.wconfd.lockstore import LockStore

# between two attempts to free what a dead owner holds
RETRY_S: Final = 1.0

_DEATH: Final = EventKind.CLOSE_WRITE | EventKind.DELETE | EventKind.MOVED_FROM
_log: Final = get_log(__name__)


class OwnerTable(Protocol):
    """Something else, beside the locks, that owners have; whoever has it is known to the locks' index."""

    def owners(self) -> frozenset[Owner]:
        """Everybody who has anything, or is about to."""
        ...

    async def drop_owner(self, owner: Owner) -> bool:
        """Take all that an owner has; false if that was nothing. Raises: Unavailable."""
        ...

    async def settled(self) -> None:
        """Wait for all changes begun before this call. Raises: Unavailable."""
        ...


class Deaths:
    """Frees what dead owners hold or wait for.

    Args:
        tables: what else owners have; they lose it after their locks.
        grace_s: a livelock file younger than this is not deleted: its maker may not have locked it yet.
    """

    def __init__(self, locks: LockStore, folder: Path, *, grace_s: float, tables: Sequence[OwnerTable] = ()) -> None:
        self._locks = locks
        self._tables = tables
        self._folder = folder
        self._grace_s = grace_s
        # deaths that only the sweep found
        self.swept = 0
        # livelocks of the dead whose owners could not be freed
        self._unburied: set[str] = set()
        self._has_unburied = trio.Event()

    async def follow(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Free dead owners as they die; started when the folder is watched, and all found dead then are freed."""
        async with FolderWatch(self._folder, kinds=_DEATH) as watch, trio.open_nursery() as nursery:
            await self.clean_up()
            self._remove_stale_files()
            task_status.started()
            nursery.start_soon(self._look_at_newcomers, nursery)
            nursery.start_soon(self._try_again, nursery)
            while True:
                events = await watch.events()
                if any(event.needs_rescan for event in events):
                    await self.clean_up()
                for name in {event.name for event in events if event.name}:
                    paths = self._locks.known.paths_named([name])
                    for path in paths:
                        nursery.start_soon(self._probe, path)
                    if not paths and (left_s := self._spared_for_s(name)) is not None:
                        nursery.start_soon(self._remove_later, str(self._folder / name), left_s)

    async def sweep(self, every_s: float) -> None:
        """The backstop, until cancelled."""
        while True:
            await trio.sleep(every_s)
            suspects = set(self._dead())
            if suspects:
                # what was told just now is on its way already
                await trio.sleep(sum(PROBE_AGAIN_AFTER_S))
            found = await self._bury_all(suspects.intersection(self._dead()))
            if found:
                self.swept += found
                _log.warning("sweep.found_dead", owners=found, effect="freed now; no event told of it")
            self._locks.forget_idle(frozenset().union(*(table.owners() for table in self._tables)))
            self._remove_stale_files()

    async def clean_up(self) -> int:
        """Look at every owner now; answers how many livelocks it found dead. On return the dead hold nothing.

        Raises: nothing; what could not be written is tried again soon.
        """
        return await self._bury_all(self._dead())

    def _dead(self) -> list[str]:
        return [path for path in self._locks.known.paths() if not is_alive(path)]

    async def _bury_all(self, dead: Collection[str]) -> int:
        for path in dead:
            await self._bury(path)
        # those that another task has just found dead
        with contextlib.suppress(GantryError):
            await self._locks.settled()
            for table in self._tables:
                await table.settled()
        return len(dead)

    async def _look_at_newcomers(self, nursery: trio.Nursery) -> None:
        while True:
            for path in await self._locks.known.newcomers():
                match life := probe(path):
                    case Life.DEAD:
                        await self._bury(path)
                    case Life.UNKNOWN:
                        nursery.start_soon(self._probe, path)
                    case Life.ALIVE:
                        pass
                    case _:
                        assert_never(life)

    async def _try_again(self, nursery: trio.Nursery) -> None:
        while True:
            await self._has_unburied.wait()
            await trio.sleep(RETRY_S)
            paths, self._unburied, self._has_unburied = self._unburied, set(), trio.Event()
            for path in paths:
                nursery.start_soon(self._probe, path)

    def _spared_for_s(self, name: str) -> float | None:
        """Until when a file must not be deleted, in seconds from now; None: it is gone."""
        try:
            age_s = time.time() - os.stat(self._folder / name).st_mtime
        except OSError:
            return None
        return max(self._grace_s - age_s, max(PROBE_AGAIN_AFTER_S))

    async def _remove_later(self, path: str, pause_s: float) -> None:
        """Delete the livelock of a process that has just closed it, if it is dead."""
        await trio.sleep(pause_s)
        _remove_if_dead(path)

    async def _probe(self, path: str) -> None:
        if await is_found_dead(path):
            await self._bury(path)

    async def _bury(self, path: str) -> None:
        """Free all owners of a livelock whose process is dead, and delete the file."""
        owners = sorted(self._locks.known.forget(path), key=Owner.sort_key)
        try:
            for owner in await self._locks.bury(owners):
                _log.info("owner.died", owner=owner, livelock=path)
            for table, owner in itertools.product(self._tables, owners):
                if await table.drop_owner(owner):
                    _log.info("owner.dropped", owner=owner, livelock=path)
        except Exception as error:
            # whatever it is, the owners of other livelocks must not suffer
            self._locks.known.restore(owners)
            self._unburied.add(path)
            self._has_unburied.set()
            _log.error("owner.not_freed", livelock=path, reason=error, retry_s=RETRY_S)
        # an owner may name any path; only livelocks are ours to delete
        if Path(path).parent == self._folder:
            _remove_if_dead(path)

    def _remove_stale_files(self) -> None:
        """Delete livelocks that nobody holds: of owners that had no locks, and of crashes in mid-creation."""
        young = time.time() - self._grace_s
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                with contextlib.suppress(OSError):
                    if entry.stat().st_mtime < young:
                        _remove_if_dead(entry.path)


def _remove_if_dead(path: str) -> None:
    """Delete a livelock that is still there, and dead: one of the same name may have been made meanwhile."""
    with contextlib.suppress(OSError):
        if os.path.exists(path) and not is_alive(path):
            os.unlink(path)

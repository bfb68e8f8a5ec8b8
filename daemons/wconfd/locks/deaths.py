"""Dead owners: found by events, freed at once.

The kernel closes the files of a process that dies, and inotify reports that. A report is never
believed, only probed. A sweep at the start, and later at intervals as a backstop, checks every owner
in any table. Each dead owner that it finds after the start is a missed event, and is counted.
A death that could not be recorded (a full disk) is retried each second.
The livelock of a process that never requested anything is also deleted, after the event of its death or at the start,
once it is old enough: the maker of a younger one may not have locked it yet. The livelocks of living processes stay,
luxid's and this daemon's included. So does the livelock of an orphan: no later process may get its name, or it would
be taken for the owner of what the orphan holds.

Source: daemons design, "Liveness"; wconfd.md 6.4; DESIGN sections 5 and 14.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol, assert_never

import attrs
import trio

from common.errors import GantryError, Unavailable
from common.locks import Owner
from common.metrics import Metrics, backstop_wakeups
from common.system.deathprobe import dead_of, is_found_dead
from common.system.livelock import PROBE_AGAIN_AFTER_S, Life, is_alive, probe
from common.system.log import get_log
from common.system.watch import EventKind, FolderWatch
from daemons.wconfd.core.locks.orphanedlocks import expire
from daemons.wconfd.locks.lockstore import LockStore

# seconds between two attempts to free a dead owner's locks
RETRY_S: Final = 1.0

_DEATH: Final = EventKind.CLOSE_WRITE | EventKind.DELETE
_log: Final = get_log(__name__)


class OwnerTable(Protocol):
    """Another table, beside the locks, in which owners have entries; the locks' index knows these owners."""

    def owners(self) -> frozenset[Owner]:
        """All owners that have entries, or are about to."""
        ...

    async def drop_owner(self, owner: Owner) -> bool:
        """Remove an owner's entries; return false if there were none. Raises: Unavailable."""
        ...

    async def settled(self) -> None:
        """Wait for all changes begun before this call. Raises: Unavailable."""
        ...


@attrs.define
class DeathCounts(Metrics):
    # deaths that only the sweep found
    swept: int = backstop_wakeups()


class LockOwnerDeaths:
    """Frees the locks and requests of dead owners.

    Args:
        tables: further tables of owners; a dead owner loses its entries there after its locks.
        grace_s: minimum age of a deleted livelock file: the maker of a younger one may not have locked it yet.
    """

    def __init__(self, locks: LockStore, folder: Path, *, grace_s: float, tables: Sequence[OwnerTable] = ()) -> None:
        self._locks = locks
        self._tables = tables
        self._folder = folder
        self._grace_s = grace_s
        self.counts = DeathCounts()
        # livelocks of dead processes whose owners could not be freed
        self._unreleased: set[str] = set()
        self._has_unreleased = trio.Event()

    async def follow(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Free owners as they die; started when the folder is watched, and those already dead are freed."""
        async with FolderWatch(self._folder, kinds=_DEATH) as watch, trio.open_nursery() as nursery:
            await self.clean_up()
            await self._remove_stale_files()
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
                    if (
                        not paths
                        and name not in self._orphaned_livelocks()
                        and (left_s := self._spared_for_s(name)) is not None
                    ):
                        nursery.start_soon(self._remove_later, str(self._folder / name), left_s)

    async def sweep(self, every_s: float) -> None:
        """Run the backstop until cancelled."""
        while True:
            await trio.sleep(every_s)
            suspects = await dead_of(self._locks.known.paths())
            if suspects:
                # a recent report is being handled already
                await trio.sleep(sum(PROBE_AGAIN_AFTER_S))
            found = await self._release_all(await dead_of(set(suspects).intersection(self._locks.known.paths())))
            if found:
                self.counts.swept += found
                _log.warning("sweep.found_dead", owners=found, effect="freed now; no event told of it")
            self._locks.forget_idle(frozenset().union(*(table.owners() for table in self._tables)))
            await self._remove_stale_files()

    async def clean_up(self) -> int:
        """Check every owner now; return the number of dead livelocks. On return dead owners hold nothing.

        Raises: nothing; failed writes are retried soon.
        """
        return await self._release_all(await dead_of(self._locks.known.paths()))

    async def make_sure(self, owners: Iterable[Owner]) -> None:
        """Bury those of these owners that have died, although no event may have told of it yet.

        Raises: Unavailable: it could not be recorded. An owner that lives stays.
        """
        dead = [path for path in {owner.livelock for owner in owners} if await is_found_dead(path)]
        if dead:
            await self._release_all(dead)
        if unreleased := self._unreleased.intersection(dead):
            raise Unavailable(f"the death of the owner of '{min(unreleased)}' could not be recorded; repeat the call")

    async def _release_all(self, dead: Collection[str]) -> int:
        for path in dead:
            await self._release(path)
        # wait for owners that another task has just found dead
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
                        await self._release(path)
                    case Life.UNKNOWN:
                        nursery.start_soon(self._probe, path)
                    case Life.ALIVE:
                        pass
                    case _:
                        assert_never(life)

    async def _try_again(self, nursery: trio.Nursery) -> None:
        while True:
            await self._has_unreleased.wait()
            await trio.sleep(RETRY_S)
            paths, self._unreleased, self._has_unreleased = self._unreleased, set(), trio.Event()
            for path in paths:
                nursery.start_soon(self._probe, path)

    def _spared_for_s(self, name: str) -> float | None:
        """The time for which a file must not be deleted, in seconds; None: it is gone."""
        try:
            age_s = time.time() - os.stat(self._folder / name).st_mtime
        except OSError:
            return None
        return max(self._grace_s - age_s, max(PROBE_AGAIN_AFTER_S))

    async def _remove_later(self, path: str, pause_s: float) -> None:
        """Delete the livelock of a process that has just closed it, if it is dead."""
        await trio.sleep(pause_s)
        if os.path.basename(path) not in self._orphaned_livelocks():
            _remove_if_dead(path)

    async def _probe(self, path: str) -> None:
        if await is_found_dead(path):
            await self._release(path)

    async def _release(self, path: str) -> None:
        """Free all owners of a dead process's livelock, and delete the file."""
        owners = sorted(self._locks.known.forget(path), key=Owner.sort_key)
        try:
            for owner in await self._locks.release_dead(owners):
                _log.info("owner.died", owner=owner, livelock=path)
                self._tell_orphan(owner)
            for table, owner in itertools.product(self._tables, owners):
                if await table.drop_owner(owner):
                    _log.info("owner.dropped", owner=owner, livelock=path)
        except Exception as error:
            # any error: the owners of other livelocks must not suffer
            self._locks.known.restore(owners)
            self._unreleased.add(path)
            self._has_unreleased.set()
            _log.error("owner.not_freed", livelock=path, reason=error, retry_s=RETRY_S)
        # an owner may name any path; only livelocks in our folder may be deleted
        if Path(path).parent == self._folder and os.path.basename(path) not in self._orphaned_livelocks():
            _remove_if_dead(path)

    def _tell_orphan(self, owner: Owner) -> None:
        if known := self._locks.state.may_run.of(owner):
            nodes = ",".join(sorted({command.node for command in known.commands}))
            effect = "its locks are kept until nothing of it runs there"
            _log.warning("locks.orphaned", owner=owner, nodes=nodes, keys=len(known.commands), effect=effect)

    def _orphaned_livelocks(self) -> frozenset[str]:
        """Names of the livelocks of orphans."""
        return frozenset(os.path.basename(owner.livelock) for owner in self._locks.state.may_run.orphans)

    async def _remove_stale_files(self) -> None:
        """Delete livelocks without a holder: of owners that had no locks, and of crashes during creation."""
        young = time.time() - self._grace_s
        old: list[str] = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                with contextlib.suppress(OSError):
                    if entry.stat().st_mtime < young:
                        old.append(entry.path)
        for path in await dead_of(old):
            if os.path.basename(path) not in self._orphaned_livelocks():
                _remove_if_dead(path)


def _remove_if_dead(path: str) -> None:
    """Delete a livelock that still exists and is dead: a new one of the same name may have been made meanwhile."""
    with contextlib.suppress(OSError):
        if os.path.exists(path) and not is_alive(path):
            os.unlink(path)


# The release of orphaned locks whose time is over: `[wconfd] ghost_s`.
#
# Source: DESIGN section 14.


# seconds between two attempts to release orphaned locks
RELEASE_RETRY_S: Final = 5.0


async def release_expired(locks: LockStore, ghost_s: float) -> None:
    """Release orphaned locks when this time has passed since their owner's death, by the clock of the wall."""
    while True:
        deaths = [orphan.since for orphan in locks.news.orphans()]
        left_s = min(deaths) + ghost_s - time.time() if deaths else float("inf")
        if left_s > 0:
            with trio.move_on_after(left_s):
                await locks.news.orphans_changed()
        else:
            await _end(locks, time.time() - ghost_s, ghost_s)


async def _end(locks: LockStore, until: float, ghost_s: float) -> None:
    try:
        outcome = await locks.carry_out(lambda state: expire(state, until))
    except GantryError as error:
        _log.error("orphaned_locks.not_released", reason=error, retry_s=RELEASE_RETRY_S)
        await trio.sleep(RELEASE_RETRY_S)
        return
    for made in outcome.made:
        effect = "its locks are free; nobody has said that its command has ended"
        _log.warning("orphaned_locks.expired", owner=made.owner, ghost_s=ghost_s, effect=effect)

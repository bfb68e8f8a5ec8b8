"""Commits of changes of the queue before they are made here, where the cluster wants them.

Theory. A refusal loses a caller his change, so it is passed on; what has happened already cannot be refused, so it is
tried until the cluster takes it: what a job's process has written, and that a change could not be made here after all.
Only that another node is the master ends such a wait.

Source: DESIGN section 14.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from common.durable.atomicfile import FileWrite
from common.errors import GantryError
from common.replication import CommitsFirst, NoLongerMaster
from common.system.log import get_log
from common.system.mastership import Mastership
from common.system.retrypauses import retry_pauses

_log: Final = get_log(__name__)


class Committing:
    """`CommitsFirst` as the queue's files need it; what it says of the mastership ends luxid."""

    def __init__(self, first: CommitsFirst, mastership: Mastership) -> None:
        self._first = first
        self._mastership = mastership
        # changes that have happened and wait for the cluster
        self.waiting = 0

    async def commit(self, writes: Sequence[FileWrite]) -> None:
        """As `CommitsFirst.replacing`, for a group of writes."""
        await self._as_master(self._first.replacing(writes))

    def made(self, writes: Sequence[FileWrite]) -> None:
        """As `CommitsFirst.made`."""
        self._first.made(writes)

    async def moving(self, moves: Sequence[tuple[Path, Path]]) -> None:
        """As `CommitsFirst.moving`."""
        await self._as_master(self._first.moving(moves))

    async def removing(self, paths: Sequence[Path]) -> None:
        """As `CommitsFirst.removing`."""
        await self._as_master(self._first.removing(paths))

    async def taking_up(self, paths: Sequence[Path], *, are_dead: bool) -> None:
        """As `CommitsFirst.taking_up`; tries until it is committed. Raises: NoLongerMaster."""
        effect = "what these jobs have done is shown when it is committed"
        await self._until_done(lambda: self._first.taking_up(paths, are_dead=are_dead), paths, effect)

    async def put_back(self, writes: Sequence[FileWrite]) -> None:
        """As `put_back_files`, for a group of writes."""
        await self.put_back_files([write.path for write in writes])

    async def put_back_files(self, paths: Sequence[Path]) -> None:
        """As `CommitsFirst.put_back`; tries until it is committed, or another node is the master. Never raises."""
        try:
            effect = "their callers wait; they could not be written here"
            await self._until_done(lambda: self._first.put_back(paths), paths, effect)
        except NoLongerMaster:
            # the new master has made the change, or will
            return

    async def _until_done(self, work: Callable[[], Awaitable[None]], paths: Sequence[Path], effect: str) -> None:
        """Raises: NoLongerMaster."""
        self.waiting += 1
        try:
            for pause_s in retry_pauses():
                try:
                    return await self._as_master(work())
                except NoLongerMaster:
                    raise
                except (GantryError, OSError) as error:
                    _log.error("commit.waits", file=paths[0], files=len(paths), reason=error, effect=effect)
                await trio.sleep(pause_s)
        finally:
            self.waiting -= 1

    async def _as_master(self, committing: Awaitable[None]) -> None:
        try:
            await committing
        except NoLongerMaster as error:
            raise self._mastership.lose(error) from error

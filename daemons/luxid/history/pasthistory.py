"""The history of ended jobs: keeps its index up to date beside the event loop, and reads it.

Theory. No job waits for it: whoever ends a job leaves it in `Endings`, and once in a while all of them become rows, in
one step in a thread. At the start the jobs that have no row yet are read from their files, a few at a time with longer
pauses between, so that jobs are not slowed. A damaged index is set aside and made anew in the same way. While the disk
refuses rows, they wait, and replies say how many are lacking.

Source: DESIGN section 16; everyday.md section g.
"""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import trio

from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.luxid.core.past.pastfields import Eyes
from daemons.luxid.core.past.places import Place
from daemons.luxid.history.pastfiles import differences, read_rows, rows_of
from daemons.luxid.history.pastindex import DamagedIndex, PastIndex, open_index, read_list, read_sums, set_aside
from daemons.luxid.history.pasttexts import texts_of_archive
from daemons.luxid.jobs.livejobs import LiveJobs
from protocol.luxi.history import EndedJobs, PastSum, ReadHistory, SummarizeHistory

# seconds in which ends are gathered, so that a step of many costs what one costs
GATHER_S: Final = 1.0
# files that a step of the catching up reads, and its pause in parts of the time that it took
STEP: Final = 50
PAUSE_PARTS: Final = 5.0
# seconds that a reader waits for jobs that have just ended
_PATIENCE_S: Final = 5.0
T = TypeVar("T")
_log: Final = get_log(__name__)


class PastHistory:
    """Start `run`; replies lack what is not read yet, and say so."""

    def __init__(self, paths: Paths, jobs: LiveJobs) -> None:
        self._paths = paths
        self._jobs = jobs
        self._endings = jobs.endings
        # None: it is not open
        self._index: PastIndex | None = None
        # jobs without a row, the newest last; None: it is not known yet which they are
        self._missing: list[JobId] | None = None
        self._texts = texts_of_archive()
        self._writing = trio.CapacityLimiter(1)
        self._reading = trio.CapacityLimiter(2)
        # number of changes in `Endings` that are in the index
        self._done = 0
        # whether rows cannot be written at the moment
        self._is_failing = False
        # what a reader found
        self._damage: DamagedIndex | None = None
        self._has_readers = trio.Event()
        self._has_written = trio.Event()

    @property
    def _unread(self) -> int:
        """Number of ended jobs of earlier that have no row yet; at least 1 while it is not known."""
        return 1 if self._missing is None else len(self._missing)

    @property
    def lacking(self) -> int:
        """Number of ended jobs that have no row yet; at least 1 while it is not known."""
        return self._unread + len(self._endings)

    @property
    def is_complete(self) -> bool:
        """Whether every ended job has its row, but for those of the last moment."""
        return self._index is not None and self._missing == []

    def check_complete(self) -> None:
        """Raises: Unavailable: some ended jobs have no row yet."""
        if not self.is_complete:
            raise Unavailable(f"the history is being read still, {self._unread} jobs are left; try again in a moment")

    async def until_complete(self) -> None:
        """Return when every ended job has its row, for the first time."""
        while not self.is_complete:
            await self._has_written.wait()

    async def run(self) -> None:
        """Keep the index, until cancelled. The next luxid reads what was not written then."""
        pauses = retry_pauses()
        try:
            while True:
                try:
                    await self._step_or_set_aside()
                    pauses, self._is_failing = retry_pauses(), False
                except (sqlite3.Error, OSError) as error:
                    pause_s, self._is_failing = next(pauses), True
                    self._tell_readers()
                    effect = "the history lacks what ends until then"
                    _log.error(
                        "history.not_written",
                        lacking=self.lacking,
                        reason=error,
                        effect=effect,
                        retry_s=pause_s,
                    )
                    await trio.sleep(pause_s)
        finally:
            if self._index is not None:
                with trio.CancelScope(shield=True):
                    await self._close(self._index)

    async def _close(self, index: PastIndex) -> None:
        """Wait until no thread uses it: SQLite frees what such a thread is reading, which ends the whole process."""
        async with self._writing:
            index.close()

    async def read(self, call: ReadHistory, eyes: Eyes) -> EndedJobs:
        """Raises: InvalidRequest, FilterError: the choice is malformed. Unavailable: it cannot be read now."""
        come = self._endings.come
        jobs, total = await self._read(lambda index: read_list(index, call, eyes))
        # those that have ended since the call are nobody's concern
        late = len(self._endings) if self._done < come else 0
        return EndedJobs(jobs, total, self._unread + late)

    async def summarize(self, call: SummarizeHistory, eyes: Eyes) -> tuple[PastSum, ...]:
        """Raises: as `read`."""
        return await self._read(lambda index: read_sums(index, call, eyes))

    async def change(self, work: Callable[[PastIndex], T]) -> T:
        """Let work be done with the index, in a thread. Raises: Unavailable: it cannot be written now."""
        index = self._index
        if index is None:
            raise Unavailable("the history is not open yet; try again")
        try:
            return await in_thread(work, index, limiter=self._writing)
        except (DamagedIndex, sqlite3.Error) as error:
            self._doubt(index, error)
            raise Unavailable(f"the history cannot be written: {error}; luxid's log says more") from error

    @property
    def _path(self) -> Path:
        return self._paths.history

    # writing

    async def _step_or_set_aside(self) -> None:
        """Raises: sqlite3.Error, OSError: the disk refuses; a damaged index may still be in its place."""
        try:
            await self._step()
        except DamagedIndex as error:
            await self._set_aside(error)

    async def _step(self) -> None:
        """Raises: DamagedIndex, sqlite3.Error, OSError."""
        if self._damage is not None:
            damage, self._damage = self._damage, None
            raise damage
        if self._index is None:
            self._index = await in_thread(open_index, self._path, limiter=self._writing)
        if self._missing is None:
            await self._compare(self._index)
            self._tell_readers()
        if self._endings.has_some:
            await self._take(self._index)
        elif self._missing:
            await self._catch_up(self._index, self._missing)
        else:
            await self._endings.wait()
            with trio.move_on_after(GATHER_S):
                await self._has_readers.wait()

    async def _compare(self, index: PastIndex) -> None:
        live = self._jobs.table.ids()
        ended = [job_id for job_id in live if self._jobs.queue.ended.get(job_id) is not None]
        found = await in_thread(differences, self._paths, frozenset(live), ended, index, limiter=self._writing)
        for place, job_ids in found.moved.items():
            if job_ids:
                await in_thread(index.put, job_ids, place, limiter=self._writing)
        self._missing = list(found.missing)
        self._texts = texts_of_archive()
        if self._missing:
            _log.info("history.catches_up", jobs=len(self._missing))

    async def _take(self, index: PastIndex) -> None:
        """Make rows of the jobs that have ended."""
        come = self._endings.come
        ended, archived = self._endings.peek()

        def write() -> None:
            index.add(rows_of(self._paths, ended))
            index.put(archived, Place.ARCHIVED)

        await in_thread(write, limiter=self._writing)
        if self._endings.drop(len(ended), len(archived)):
            # others came while the disk refused rows
            self._missing = None
        self._done = come
        self._tell_readers()

    async def _catch_up(self, index: PastIndex, missing: list[JobId]) -> None:
        job_ids = missing[: -STEP - 1 : -1]
        began = time.perf_counter()
        await in_thread(lambda: index.add(read_rows(self._paths, job_ids, self._texts)), limiter=self._writing)
        del missing[-STEP:]
        if not missing:
            self._texts = texts_of_archive()
            _log.info("history.complete")
            self._tell_readers()
        with trio.move_on_after((time.perf_counter() - began) * PAUSE_PARTS):
            await self._has_readers.wait()

    def _tell_readers(self) -> None:
        self._has_readers = trio.Event()
        self._has_written.set()
        self._has_written = trio.Event()

    async def _set_aside(self, error: DamagedIndex) -> None:
        index, self._index, self._missing, self._damage = self._index, None, None, None
        if index is not None:
            await self._close(index)
        moved_to = await in_thread(set_aside, self._path)
        effect = "it is made anew from the job files, and lacks jobs whose files were removed"
        _log.error("history.damaged", file=self._path, reason=error, moved_to=moved_to, effect=effect)

    # reading

    async def _read(self, work: Callable[[PastIndex], T]) -> T:
        await self.be_current()
        index = self._index
        if index is None:
            raise Unavailable("the history is not open yet; try again, or see luxid's log")
        try:
            return await in_thread(work, index, limiter=self._reading)
        except (DamagedIndex, sqlite3.Error) as error:
            self._doubt(index, error)
            raise Unavailable(f"the history cannot be read now: {error}; try again, or see luxid's log") from error

    def _doubt(self, index: PastIndex, error: Exception) -> None:
        # one that was set aside meanwhile says nothing about the new one
        if isinstance(error, DamagedIndex) and index is self._index:
            self._damage = error
            self._endings.poke()

    async def be_current(self) -> None:
        """Wait a moment until the jobs that have ended before this call have their rows."""
        come = self._endings.come
        with trio.move_on_after(_PATIENCE_S):
            while (self._done < come or self._index is None) and not self._is_failing:
                self._has_readers.set()
                await self._has_written.wait()

"""Archives ended jobs, and removes jobs, outputs, histories and keys that are kept no longer.

Theory. Everything is done in steps that a crash may come between: a step is durable before the next begins, and the
next look does again what is missing. Of a job the output goes first, then its file, then the note in the index that it
is gone; so what is left of one half removed is a job that is due still. Files are removed in groups with one fsync for
each folder, and between two groups jobs go on.

A clock that jumps ahead would make everything old at once. So after a jump of more than a day nothing is removed for a
day, and the log says so.

Source: DESIGN section 16; everyday.md sections g, j.
"""

import math
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from common.errors import GantryError
from common.ids import JobId
from common.replication import NoLongerMaster
from common.settingwords.retentionsettings import RetentionSettings
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.core.copies.etcdroom import EtcdRoom
from daemons.luxid.core.past.places import Place
from daemons.luxid.core.retention import keeping
from daemons.luxid.core.retention.keeping import Claims, Mark, claims_of
from daemons.luxid.core.submission.keyed import KeyedSubmission
from daemons.luxid.files.store import Store
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.history.pasthistory import PastHistory
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.retention.clockjumps import ClockJumps
from daemons.luxid.retention.leftfiles import Piece, is_on_disk, outputs, unused_waits, with_processes, without
from daemons.luxid.retention.selections import count_rows, ended_before, kept_jobs, select_due
from daemons.luxid.retention.tally import Tally
from daemons.luxid.turns import in_turns
from protocol.luxi.history import Pruned

# jobs whose files are removed together, and archived together
GROUP: Final = 500
ARCHIVED_AT_ONCE: Final = 100
# rows of the history that are deleted together
_ROWS_AT_ONCE: Final = 5000
Archive = Callable[[list[JobId]], Awaitable[int]]
_log: Final = get_log(__name__)


@attrs.frozen
class _Due:
    """What a look has found."""

    archivable: list[JobId]
    marks: list[Mark]
    # outputs of jobs that are not removed themselves, and of those that are
    outputs: Mapping[JobId, Sequence[Piece]]
    of_marks: Mapping[JobId, Sequence[Piece]]


class Pruning:
    """Removes what is due; one look at a time.

    Args:
        archive: archives ended jobs; returns how many it could.
        room: tells whether changes that can wait can be committed.
        is_told: whether everybody who is to be told of a job's end has been told.
    """

    def __init__(
        self,
        rules: RetentionSettings,
        store: Store,
        jobs: LiveJobs,
        past: PastHistory,
        keys: SubmissionKeys,
        archive: Archive,
        room: EtcdRoom,
        is_told: Callable[[JobId], bool] = lambda _: True,
    ) -> None:
        self._rules = rules
        self._store = store
        self._jobs = jobs
        self._past = past
        self._keys = keys
        self._archive = archive
        self._room = room
        self._is_told = is_told
        self._turn = trio.Lock()
        # jobs removed since the start
        self.removed = 0

    async def run(self) -> None:
        """Prune again and again, until cancelled; tell only, if it is not enabled."""
        await self._past.until_complete()
        clock = ClockJumps()
        while True:
            if clock.has_jumped():
                effect = "nothing is removed for a day, unless by 'gantry prune'"
                _log.error("retention.clock_jumped", seconds=clock.jump_s, effect=effect)
            if not clock.is_doubted:
                await self._look()
            await trio.sleep(self._rules.interval_s)

    async def _look(self) -> None:
        is_dry = not self._rules.enabled
        try:
            done = await self.prune(is_dry=is_dry)
        except NoLongerMaster:
            # whoever removes files next ends luxid, if nobody has yet
            return
        except (GantryError, OSError) as error:
            _log.error("retention.failed", reason=error, retry_s=self._rules.interval_s)
            return
        counts = attrs.asdict(done, filter=lambda field, value: bool(value) and field.name not in ("oldest", "newest"))
        if counts and is_dry:
            hint = "'gantry prune' does it; '[retention]' of the settings says what is kept"
            _log.info("retention.off", effect="nothing is removed", hint=hint, **counts)
        elif counts:
            _log.info("retention.done", **counts)

    async def prune(self, *, is_dry: bool, until: float = math.inf) -> Pruned:
        """Archive and remove what is due, or only count it.

        Args: until: instant of trio's clock at which to stop; the reply says how many jobs are left.
        Raises: Unavailable: the history is not complete, or a disk refuses. OSError, NoLongerMaster.
        Cancellation: between two steps; all done so far is durable.
        """
        async with self._turn:
            await self._past.be_current()
            self._past.check_complete()
            tally, now_s = Tally(), time.time()
            due = await self._find(now_s, is_dry=is_dry)
            if is_dry:
                await self._count(due, tally, now_s)
                return tally.total()
            await self._archive_all(due.archivable, tally, until)
            await self._remove_outputs(due.outputs, tally, until)
            await self._remove_jobs(due, tally, until)
            if not tally.left:
                await self._remove_rest(tally, now_s)
            return tally.total()

    # what is due

    async def _find(self, now_s: float, *, is_dry: bool) -> _Due:
        rules = self._rules
        archivable, marks = await self._past.change(lambda index: select_due(index, rules, now_s))
        archivable = [job_id for job_id in archivable if self._is_told(job_id)]
        if not is_dry:
            # those that are archived by this call are due by it, too, as soon as they are
            archived = set(archivable)
            archivable_first = [mark for mark in marks if mark.job_id in archived]
            marks = [mark for mark in marks if mark.job_id not in archived] + archivable_first
        if marks:
            allowed = await self._allowed(now_s)
            marks = await in_turns(_allowed_marks(marks, allowed))
        lying = await in_thread(outputs, self._store.paths)
        ids = frozenset(mark.job_id for mark in marks)
        old = await self._past.change(lambda index: ended_before(index, lying, keeping.outputs_due(rules, now_s)))
        return _Due(
            archivable,
            marks,
            without({job_id: lying[job_id] for job_id in old}, ids),
            {job_id: pieces for job_id, pieces in lying.items() if job_id in ids},
        )

    async def _allowed(self, now_s: float) -> Claims:
        needed = await in_thread(with_processes, self._store.paths)
        batches: set[str] = set()
        table = self._jobs.table

        def read_all() -> Generator[int, None, None]:
            for job_id in table.ids():
                job = table.in_memory(job_id)
                if job is not None and job.next_index is not None:
                    depended, batch = claims_of(job)
                    needed.update(depended)
                    batches.add(batch)
                yield 1

        await in_turns(read_all())
        return Claims(needed, batches, self._keys.repeatable(now_s), self._is_told)

    async def _count(self, due: _Due, tally: Tally, now_s: float) -> None:
        tally.archived = len(due.archivable)
        tally.add_jobs(due.marks)
        tally.add_outputs([*due.outputs.values(), *due.of_marks.values()])
        gone = frozenset(mark.job_id for mark in due.marks)
        tally.waits = len(await self._unused_waits(gone))
        tally.keys = len(await self._unused_keys(now_s, gone))
        before = keeping.rows_due(self._rules, now_s)
        tally.rows = await self._past.change(lambda index: count_rows(index, before))

    # removal

    async def _archive_all(self, job_ids: list[JobId], tally: Tally, until: float) -> None:
        for start in range(0, len(job_ids), ARCHIVED_AT_ONCE):
            if trio.current_time() >= until:
                tally.left += len(job_ids) - start
                return
            part = job_ids[start : start + ARCHIVED_AT_ONCE]
            await self._give_way(len(part))
            tally.archived += await self._archive(part)

    async def _remove_outputs(self, found: Mapping[JobId, Sequence[Piece]], tally: Tally, until: float) -> None:
        job_ids = sorted(found)
        for start in range(0, len(job_ids), GROUP):
            if trio.current_time() >= until:
                tally.left += len(job_ids) - start
                return
            part = [found[job_id] for job_id in job_ids[start : start + GROUP]]
            await self._store.files.discard([piece.path for pieces in part for piece in pieces])
            tally.add_outputs(part)
            await trio.lowlevel.checkpoint()

    async def _remove_jobs(self, due: _Due, tally: Tally, until: float) -> None:
        for start in range(0, len(due.marks), GROUP):
            if trio.current_time() >= until:
                tally.left += len(due.marks) - start
                return
            # a submission may have named one since
            part = [mark for mark in due.marks[start : start + GROUP] if self._is_free(mark.job_id)]
            await self._give_way(len(part))
            await self._remove_group(part, due.of_marks, tally)

    def _is_free(self, job_id: JobId) -> bool:
        return not self._jobs.queue.is_awaited(job_id) and job_id not in self._jobs.table

    async def _remove_group(self, part: Sequence[Mark], lying: Mapping[JobId, Sequence[Piece]], tally: Tally) -> None:
        job_ids = [mark.job_id for mark in part]
        if not job_ids:
            return
        pieces = [lying[job_id] for job_id in job_ids if job_id in lying]
        if pieces:
            await self._store.files.discard([piece.path for each in pieces for piece in each])
            tally.add_outputs(pieces)
        await self._store.files.remove([self._store.paths.archived_job_file(job_id) for job_id in job_ids])
        tally.add_jobs(part)
        self.removed += len(part)
        await self._past.change(lambda index: index.put(job_ids, Place.REMOVED))
        _log.info("jobs.removed", count=len(job_ids), first=job_ids[0], last=job_ids[-1])

    async def _remove_rest(self, tally: Tally, now_s: float) -> None:
        """Remove what only jobs that are gone had."""
        waits = await self._unused_waits(frozenset())
        for start in range(0, len(waits), GROUP):
            await self._store.files.discard(waits[start : start + GROUP])
        tally.waits = len(waits)
        keys = await self._unused_keys(now_s, frozenset())
        if keys:
            await self._keys.forget(keys)
        tally.keys = len(keys)
        before = keeping.rows_due(self._rules, now_s)
        while gone := await self._past.change(lambda index: index.forget_removed(before, _ROWS_AT_ONCE)):
            tally.rows += gone

    async def _unused_waits(self, gone: frozenset[JobId]) -> Sequence[Path]:
        kept = await self._past.change(kept_jobs)
        live, paths, serial = self._jobs.table.ids(), self._store.paths, self._store.serial
        return await in_thread(unused_waits, paths, serial, kept, live, gone)

    async def _unused_keys(self, now_s: float, gone: frozenset[JobId]) -> Sequence[KeyedSubmission]:
        old, paths = self._keys.outdated(now_s), self._store.paths

        def unused() -> list[KeyedSubmission]:
            return [each for each in old if not any(_is_kept(job_id) for job_id in each.job_ids)]

        def _is_kept(job_id: int) -> bool:
            return job_id not in gone and is_on_disk(paths, job_id)

        return await in_thread(unused) if old else []

    async def _give_way(self, count: int) -> None:
        if pause_s := self._room.pause_s(count):
            await trio.sleep(pause_s)
        else:
            await trio.lowlevel.checkpoint()


def _allowed_marks(marks: Sequence[Mark], claims: Claims) -> Generator[int, None, list[Mark]]:
    """Those that nothing holds back, in steps."""
    found = []
    for mark in marks:
        if claims.allow(mark):
            found.append(mark)
        yield 1
    return found

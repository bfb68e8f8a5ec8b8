"""Archives and removes what is kept no longer."""

import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Container, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import orjson
import trio

from common.errors import GantryError
from common.featuresettings import RetentionSettings
from common.ids import JobId
from common.lease.deadline import boottime
from common.metrics import Metrics, counter
from common.paths import WAITS_FILE_JOBS, Paths
from common.replica.replica import NoLongerMaster
from common.system.inthread import give_way, in_thread
from common.system.livelock import livelocks_of_jobs
from common.system.log import get_log
from daemons.luxid.core import retention
from daemons.luxid.core.copies.etcdroom import EtcdRoom
from daemons.luxid.core.past.endedrow import ColumnIndex
from daemons.luxid.core.past.queries import SqlCondition
from daemons.luxid.core.retention import DAY_S, Mark, RetentionClaims, claims_of, read_marks
from daemons.luxid.core.submission.keyed import KeyedSubmission
from daemons.luxid.files.store import Store
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.history.index import PastIndex
from daemons.luxid.history.upkeep import PastHistory
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.turns import in_turns
from protocol.luxi.history import Pruned

# What lies on disk beside the files of ended jobs, for their removal; all functions are for threads.


_PIECE: Final = re.compile(r"job-(\d+)(?:\.err)?(?:\.times)?(?:\.\d+)*", re.ASCII)


@attrs.frozen
class JobOutputFile:
    """A file of a job's output."""

    path: Path
    size: int


def outputs(paths: Paths) -> Mapping[JobId, Sequence[JobOutputFile]]:
    """The output of all jobs. Raises: OSError."""
    found: dict[JobId, list[JobOutputFile]] = {}
    with os.scandir(paths.output) as entries:
        for entry in entries:
            if (match := _PIECE.fullmatch(entry.name)) is not None:
                try:
                    piece = JobOutputFile(Path(entry.path), entry.stat(follow_symlinks=False).st_size)
                except FileNotFoundError:
                    # its job's process has just removed the oldest piece
                    continue
                found.setdefault(JobId(int(match[1])), []).append(piece)
    return found


def with_processes(paths: Paths) -> set[int]:
    """The jobs that have a livelock: they run, or have left a process. Raises: OSError."""
    return set(livelocks_of_jobs(paths.livelocks))


def unused_waits(
    paths: Paths, serial: int, kept: Iterable[int], live: Iterable[int], gone: Container[int]
) -> list[Path]:
    """The histories of waits whose jobs are all gone.

    Args:
        kept: ended jobs that are not removed.
        live: all jobs that are not archived.
        gone: jobs that are taken for removed, though their files exist.
    Raises: OSError.
    """
    used = {job_id // WAITS_FILE_JOBS for jobs in (kept, live) for job_id in jobs if job_id not in gone}
    # jobs of the last one may still come
    last = serial // WAITS_FILE_JOBS
    names = (name for name in os.listdir(paths.waits) if name.isascii() and name.isdigit())
    groups = sorted(group for group in map(int, names) if group < last and group not in used)
    return [paths.waits / str(group) for group in groups if not _has_jobs(paths, group, gone)]


def _has_jobs(paths: Paths, group: int, gone: Container[int]) -> bool:
    """Whether there is a file that the index does not know, such as a damaged one."""
    first = group * WAITS_FILE_JOBS
    ids = range(first, first + WAITS_FILE_JOBS)
    return any(job_id not in gone and is_on_disk(paths, job_id) for job_id in ids)


def is_in_queue(paths: Paths, job_id: int) -> bool:
    """Whether a file of the job exists, live or archived."""
    return any(map(os.path.lexists, (paths.job_file(job_id), paths.archived_job_file(job_id))))


def is_on_disk(paths: Paths, job_id: int) -> bool:
    """Whether a file of the job exists, live, archived or damaged."""
    return is_in_queue(paths, job_id) or os.path.lexists(paths.damaged / f"job-{job_id}")


def bytes_of(pieces: Iterable[JobOutputFile]) -> int:
    return sum(piece.size for piece in pieces)


def without(
    found: Mapping[JobId, Sequence[JobOutputFile]], job_ids: Collection[JobId]
) -> Mapping[JobId, Sequence[JobOutputFile]]:
    """The outputs of other jobs."""
    return {job_id: pieces for job_id, pieces in found.items() if job_id not in job_ids}


# Whether the clock was set ahead by so much that no age can be trusted.


# seconds by which a clock may be set without harm
_JUMP_S: Final = DAY_S


@attrs.define
class ClockJumps:
    """Compares the clock with the time since the machine began."""

    jump_s: float = 0.0
    _offset: float = attrs.Factory(lambda: time.time() - boottime())
    # instant, by the time since the machine began, until which the clock is doubted
    _until: float = 0.0

    def has_jumped(self) -> bool:
        """Whether it was set ahead by much since the last call."""
        offset = time.time() - boottime()
        self.jump_s, self._offset = offset - self._offset, offset
        if self.jump_s > _JUMP_S:
            self._until = boottime() + DAY_S
            return True
        if self.jump_s < -_JUMP_S:
            # set right again
            self._until = 0.0
        return False

    @property
    def is_doubted(self) -> bool:
        return boottime() < self._until


# What the index of the history says of the jobs that are kept; all functions are for threads.
#
# Raises, all: DamagedIndex, sqlite3.Error.


def select_due(index: PastIndex, rules: RetentionSettings, now_s: float) -> tuple[list[JobId], list[Mark]]:
    """The live jobs to archive, and the marks of the jobs that may be removed, each by id."""
    old = [JobId(int(str(row[0]))) for row in index.select(retention.archivable(rules, now_s))]
    return old, read_marks(index.select(retention.due(rules, now_s)))


def ended_before(index: PastIndex, job_ids: Iterable[JobId], at: float) -> list[JobId]:
    """Those of these jobs that ended before an instant."""
    listed = orjson.dumps(list(job_ids)).decode()
    sql = 'SELECT id FROM jobs WHERE "end" < ? AND id IN (SELECT value FROM json_each(?))'
    return [JobId(int(str(row[0]))) for row in index.select(SqlCondition(sql, (at, listed)))]


def kept_jobs(index: PastIndex) -> list[int]:
    """The ended jobs that are not removed."""
    return [
        int(str(row[0]))
        for row in index.select(SqlCondition("SELECT id FROM jobs WHERE place < ?", (ColumnIndex.REMOVED,)))
    ]


def count_rows(index: PastIndex, before: float) -> int:
    """The rows of removed jobs that ended before an instant."""
    sql = 'SELECT COUNT(*) FROM jobs WHERE place = ? AND "end" < ?'
    return int(str(index.select(SqlCondition(sql, (ColumnIndex.REMOVED, before)))[0][0]))


# What a look for jobs to remove has removed.


@attrs.define
class RemovalTally:
    """What was removed so far, or would be."""

    archived: int = 0
    jobs: int = 0
    outputs: int = 0
    output_bytes: int = 0
    waits: int = 0
    keys: int = 0
    rows: int = 0
    left: int = 0
    ends: list[float] = attrs.Factory(list)

    def add_outputs(self, found: Iterable[Sequence[JobOutputFile]]) -> None:
        for pieces in found:
            self.outputs += 1
            self.output_bytes += bytes_of(pieces)

    def add_jobs(self, marks: Sequence[Mark]) -> None:
        self.jobs += len(marks)
        known = [mark.ended_at for mark in marks if mark.ended_at is not None]
        self.ends = [min([*self.ends, *known]), max([*self.ends, *known])] if known else self.ends

    def total(self) -> Pruned:
        values = attrs.asdict(self)
        ends = values.pop("ends")
        return Pruned(**values, oldest=ends[0] if ends else None, newest=ends[-1] if ends else None)


# Archives ended jobs, and removes jobs, outputs, histories and keys that are kept no longer.
#
# Theory. Everything is done in steps that a crash may come between: a step is durable before the next begins, and the
# next look does again what is missing. Of a job the output goes first, then its file, then the note in the index that
# it is gone; so what is left of one half removed is a job that is due still. Files are removed in groups with one fsync
# for each folder, and between two groups jobs go on.
#
# A clock that jumps ahead would make everything old at once. So after a jump of more than a day nothing is removed for
# a day, and the log says so.
#
# Source: DESIGN section 16; everyday.md sections g, j.


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
    outputs: Mapping[JobId, Sequence[JobOutputFile]]
    of_marks: Mapping[JobId, Sequence[JobOutputFile]]


@attrs.define
class PruneCounts(Metrics):
    removed: int = counter("jobs_removed", "Archived jobs removed by retention.")


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
        self.counts = PruneCounts()

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
            tally, now_s = RemovalTally(), time.time()
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
        old = await self._past.change(lambda index: ended_before(index, lying, retention.outputs_due(rules, now_s)))
        return _Due(
            archivable,
            marks,
            without({job_id: lying[job_id] for job_id in old}, ids),
            {job_id: pieces for job_id, pieces in lying.items() if job_id in ids},
        )

    async def _allowed(self, now_s: float) -> RetentionClaims:
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
        return RetentionClaims(needed, batches, self._keys.repeatable(now_s), self._is_told)

    async def _count(self, due: _Due, tally: RemovalTally, now_s: float) -> None:
        tally.archived = len(due.archivable)
        tally.add_jobs(due.marks)
        tally.add_outputs([*due.outputs.values(), *due.of_marks.values()])
        gone = frozenset(mark.job_id for mark in due.marks)
        tally.waits = len(await self._unused_waits(gone))
        tally.keys = len(await self._unused_keys(now_s, gone))
        before = retention.rows_due(self._rules, now_s)
        tally.rows = await self._past.change(lambda index: count_rows(index, before))

    # removal

    async def _archive_all(self, job_ids: list[JobId], tally: RemovalTally, until: float) -> None:
        for start in range(0, len(job_ids), ARCHIVED_AT_ONCE):
            if trio.current_time() >= until:
                tally.left += len(job_ids) - start
                return
            part = job_ids[start : start + ARCHIVED_AT_ONCE]
            await self._give_way(len(part))
            tally.archived += await self._archive(part)

    async def _remove_outputs(
        self, found: Mapping[JobId, Sequence[JobOutputFile]], tally: RemovalTally, until: float
    ) -> None:
        job_ids = sorted(found)
        for start in range(0, len(job_ids), GROUP):
            if trio.current_time() >= until:
                tally.left += len(job_ids) - start
                return
            part = [found[job_id] for job_id in job_ids[start : start + GROUP]]
            await self._store.files.discard([piece.path for pieces in part for piece in pieces])
            tally.add_outputs(part)
            await give_way()

    async def _remove_jobs(self, due: _Due, tally: RemovalTally, until: float) -> None:
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

    async def _remove_group(
        self, part: Sequence[Mark], lying: Mapping[JobId, Sequence[JobOutputFile]], tally: RemovalTally
    ) -> None:
        job_ids = [mark.job_id for mark in part]
        if not job_ids:
            return
        pieces = [lying[job_id] for job_id in job_ids if job_id in lying]
        if pieces:
            await self._store.files.discard([piece.path for each in pieces for piece in each])
            tally.add_outputs(pieces)
        await self._store.files.remove([self._store.paths.archived_job_file(job_id) for job_id in job_ids])
        tally.add_jobs(part)
        self.counts.removed += len(part)
        await self._past.change(lambda index: index.put(job_ids, ColumnIndex.REMOVED))
        _log.info("jobs.removed", count=len(job_ids), first=job_ids[0], last=job_ids[-1])

    async def _remove_rest(self, tally: RemovalTally, now_s: float) -> None:
        """Remove what only jobs that are gone had."""
        waits = await self._unused_waits(frozenset())
        for start in range(0, len(waits), GROUP):
            await self._store.files.discard(waits[start : start + GROUP])
        tally.waits = len(waits)
        keys = await self._unused_keys(now_s, frozenset())
        if keys:
            await self._keys.forget(keys)
        tally.keys = len(keys)
        before = retention.rows_due(self._rules, now_s)
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
            await give_way()


def _allowed_marks(marks: Sequence[Mark], claims: RetentionClaims) -> Generator[int, None, list[Mark]]:
    """Those that nothing holds back, in steps."""
    found = []
    for mark in marks:
        if claims.allow(mark):
            found.append(mark)
        yield 1
    return found

"""The index of ended jobs: rows from the files of jobs, kept up to date beside the event loop."""

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

import attrs
import orjson
import trio

from common.errors import DamagedFile, GantryError, Unavailable
from common.ids import JobId
from common.opcodes.base import summary
from common.opcodes.registry import parse_opcode
from common.paths import ARCHIVE_FOLDER_JOBS, Paths
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from common.queue.sidefiles import read_spans
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from common.words.outcome import Outcome, end_words
from daemons.luxid.core.choice.readings import reading_of
from daemons.luxid.core.past.endedrow import ColumnIndex, JobTexts, PastRow, freed_at, past_row, was_kept
from daemons.luxid.core.past.queries import Eyes
from daemons.luxid.history.index import DamagedIndex, PastIndex, open_index, read_list, read_sums, set_aside
from daemons.luxid.jobs import LiveJobs
from protocol.luxi.history import EndedJobs, PastSum, ReadHistory, SummarizeHistory

# Ended jobs in words: what they did, and why they failed or were canceled.
#
# Theory. To read an opcode is dear. That of a job that has just ended was read when it was queued, and its summary is
# looked up (`readings`). The jobs of an archive would only drive the opcodes of the queue out of there, so they have a
# memory of their own, in which all nights of a backup are one entry.


# keys on which no summary depends, and that differ from job to job
_COMMON_KEYS: Final = frozenset({"reason", "depends", "priority", "debug_level", "dry_run"})
_REMEMBERED: Final = 512
Summarize = Callable[[Mapping[str, object]], str]


def texts_of_queue() -> JobTexts:
    """For jobs that have just ended."""
    return _texts(lambda op_input: reading_of(op_input).summary)


def texts_of_archive() -> JobTexts:
    """For jobs of earlier; keep it as long as there are some to read."""
    known: dict[bytes, str] = {}

    def look_up(op_input: Mapping[str, object]) -> str:
        own = {key: value for key, value in op_input.items() if key not in _COMMON_KEYS}
        text = orjson.dumps(own)
        if text not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            known[text] = _read_text(own)
        return known[text]

    return _texts(look_up)


def _texts(summarize: Summarize) -> JobTexts:
    return JobTexts(summarize, lambda job: _reason(job, summarize))


def _read_text(own: Mapping[str, object]) -> str:
    try:
        return summary(parse_opcode(own))
    except GantryError:
        op_id = own.get("OP_ID")
        return op_id.removeprefix("OP_") if isinstance(op_id, str) else "INVALID_OP"


def _reason(job: Job, summarize: Summarize) -> str:
    """As `gnt-job why` says it."""
    words = end_words(_outcome(job, summarize), lambda _: None) or ""
    return next(iter(words.splitlines()), "")


def _outcome(job: Job, summarize: Summarize) -> Outcome:
    return Outcome(
        job.job_id,
        job.state.value,
        tuple(summarize(op.input) for op in job.ops),
        tuple(op.state.value for op in job.ops),
        tuple(op.result for op in job.ops),
        tuple(op.input for op in job.ops),
        tuple(op.exec_at for op in job.ops),
        None,
    )


# Ended jobs on disk, as rows of the history; all functions are for threads.
#
# They give way to the event loop after every few files: they need the interpreter, and it is the more urgent.


# files, or jobs, between two turns of the event loop: less than a millisecond
_AT_ONCE: Final = 5
_PREFIX: Final = "job-"
_log: Final = get_log(__name__)


class IndexReader(Protocol):
    """The index, as far as it is compared."""

    def folders(self, size: int) -> list[int]: ...

    def places(self, job_ids: range) -> Mapping[JobId, ColumnIndex]: ...


@attrs.frozen
class Differences:
    """What the index lacks."""

    # jobs without a row, the newest last
    missing: Sequence[JobId]
    # jobs that lie elsewhere than their rows say
    moved: Mapping[ColumnIndex, Sequence[JobId]]


def differences(paths: Paths, live: Collection[JobId], ended: Iterable[JobId], noted: IndexReader) -> Differences:
    """Compare the index with the files, one folder of the archive after the other: all at once would be much memory.

    Args:
        live: all jobs that are not archived.
        ended: those of them that have ended.
    Raises: OSError: a folder cannot be listed. DamagedIndex, sqlite3.Error.
    """
    ended_of: dict[int, list[JobId]] = {}
    for job_id in ended:
        ended_of.setdefault(job_id // ARCHIVE_FOLDER_JOBS, []).append(job_id)
    folders = {int(name) for name in os.listdir(paths.archive) if name.isascii() and name.isdigit()}
    missing: list[JobId] = []
    moved: dict[ColumnIndex, list[JobId]] = {place: [] for place in ColumnIndex}
    for folder in sorted({*folders, *ended_of, *noted.folders(ARCHIVE_FOLDER_JOBS)}):
        there = dict.fromkeys(_jobs_in(paths.archive / str(folder)) if folder in folders else (), ColumnIndex.ARCHIVED)
        # in this order: one that is archived meanwhile is reported as such
        there.update(dict.fromkeys(ended_of.get(folder, ()), ColumnIndex.LIVE))
        first = folder * ARCHIVE_FOLDER_JOBS
        known = noted.places(range(first, first + ARCHIVE_FOLDER_JOBS))
        missing += sorted(there.keys() - known.keys())
        for job_id, place in known.items():
            now = there.get(job_id, ColumnIndex.REMOVED)
            if now is not place and not (now is ColumnIndex.REMOVED and job_id in live):
                moved[now].append(job_id)
        time.sleep(0)
    return Differences(missing, moved)


def rows_of(paths: Paths, jobs: Sequence[Job]) -> list[tuple[PastRow, ColumnIndex]]:
    """The rows of jobs that have just ended."""
    found, texts = [], texts_of_queue()
    for number, job in enumerate(jobs):
        found.append((_row(paths, job, texts), ColumnIndex.LIVE))
        _give_way(number)
    return found


def read_rows(paths: Paths, job_ids: Sequence[JobId], texts: JobTexts) -> list[tuple[PastRow, ColumnIndex]]:
    """The rows of ended jobs whose files can be read. Raises: OSError: one cannot be read now."""
    found = []
    for number, job_id in enumerate(job_ids):
        if (read := _read_job(paths, job_id)) is not None:
            found.append((_row(paths, read[0], texts), read[1]))
        _give_way(number)
    return found


def _row(paths: Paths, job: Job, texts: JobTexts) -> PastRow:
    if not was_kept(job):
        return past_row(job, texts)
    try:
        spans = read_spans(paths.waits_file(job.job_id), job.job_id)
    except OSError as error:
        _log.warning(
            "waits.unreadable", job=job.job_id, reason=error, effect="the history counts its wait from its receipt"
        )
        return past_row(job, texts)
    return past_row(job, texts, freed_at(job, spans))


def _read_job(paths: Paths, job_id: JobId) -> tuple[Job, ColumnIndex] | None:
    # in this order: a job is moved from the one to the other, and never back
    for path, place in (
        (paths.job_file(job_id), ColumnIndex.LIVE),
        (paths.archived_job_file(job_id), ColumnIndex.ARCHIVED),
    ):
        try:
            job = decode_job(path.read_bytes(), str(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (DamagedFile, IsADirectoryError) as error:
            _log.warning("job.damaged", job=job_id, file=path, reason=error, effect="the history lacks it")
            return None
        return (job, place) if job.next_index is None else None
    return None


def _jobs_in(folder: Path) -> Iterable[JobId]:
    for name in os.listdir(folder):
        number = name.removeprefix(_PREFIX)
        if number is not name and number.isascii() and number.isdigit():
            yield JobId(int(number))


def _give_way(number: int) -> None:
    if number % _AT_ONCE == _AT_ONCE - 1:
        # lets the interpreter's lock go to who waits for it
        time.sleep(0)


# The history of ended jobs: keeps its index up to date beside the event loop, and reads it.
#
# Theory. No job waits for it: whoever ends a job leaves it in `HistoryOutbox`, and once in a while all of them become
# rows, in one step in a thread. At the start the jobs that have no row yet are read from their files, a few at a time
# with longer pauses between, so that jobs are not slowed. A damaged index is set aside and made anew in the same way.
# While the disk refuses rows, they wait, and replies say how many are lacking.
#
# Source: DESIGN section 16; everyday.md section g.


# seconds in which ends are gathered, so that a step of many costs what one costs
GATHER_S: Final = 1.0
# files that a step of the catching up reads, and its pause in parts of the time that it took
STEP: Final = 50
PAUSE_PARTS: Final = 5.0
# seconds that a reader waits for jobs that have just ended
_PATIENCE_S: Final = 5.0
T = TypeVar("T")


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
        # number of changes in `HistoryOutbox` that are in the index
        self._done = 0
        # whether rows cannot be written at the moment
        self._is_failing = False
        # what a reader found
        self._damage: DamagedIndex | None = None
        self._has_readers = trio.Event()
        self._has_written = trio.Event()

    @property
    def _unread(self) -> int:
        """Backlog: number of older ended jobs without a row; at least 1 while it is not known."""
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
        (jobs, total), lacking = await self._read(lambda index: read_list(index, call, eyes))
        return EndedJobs(jobs, total, lacking)

    async def summarize(self, call: SummarizeHistory, eyes: Eyes) -> tuple[PastSum, ...]:
        """Raises: as `read`."""
        sums, _ = await self._read(lambda index: read_sums(index, call, eyes))
        return sums

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
            index.put(archived, ColumnIndex.ARCHIVED)

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

    async def _read(self, work: Callable[[PastIndex], T]) -> tuple[T, int]:
        """Returns: what was read, and how many of the jobs that had ended before this call may be missing in it."""
        come = self._endings.come
        await self.be_current()
        # before it is read: rows that come meanwhile are not seen. Those that have ended since the call are nobody's
        # concern
        lacking = self._unread + (len(self._endings) if self._done < come else 0)
        index = self._index
        if index is None:
            raise Unavailable("the history is not open yet; try again, or see luxid's log")
        try:
            return await in_thread(work, index, limiter=self._reading), lacking
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

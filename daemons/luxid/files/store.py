"""The queue on disk: job files, the serial, the drain flag, the archive, and the lock over them.

Every change goes through `QueueFiles`, where simultaneous writers share the cost, and other nodes learn of the change.
Single files are read in place: a job file is small and almost always in memory.

Source: luxid.md 3; DESIGN sections 3 (invariants 1 and 2) and 6.
"""

import bisect
import contextlib
import errno
import os
from collections.abc import Generator, Iterable, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import attrs
import trio

from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.durable.folders import check_kinds
from common.errors import DamagedFile, GantryError, InvalidRequest, NotFound, Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.explanation import Span
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobState, LogEntry
from common.queue.sidefiles import add_lines, append_spans, read_all_lines, read_lines, read_spans
from common.replica.replica import NoLongerMaster
from common.system.log import get_log
from daemons.luxid.core.queue.entry import Waited
from daemons.luxid.files.queuefiles import QueueFiles
from daemons.luxid.files.queuefolder import check_version, read_serial, take_lock
from daemons.luxid.files.submissionkeys import note_of
from daemons.luxid.removals import begin_removals
from daemons.luxid.turns import in_turns

# Log lines of running jobs that the job files do not have yet.
#
# No lines are kept in memory, only, for each job, the serials and offsets of earlier reads: so a reader that knows
# the log up to some line continues near there, however long the log is.
#
# Source: common/queue/sidefiles.py; luxid.md 8.


_log: Final = get_log(__name__)


class JobLogs:
    """Reads the lines that job processes append."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        # job -> (serial, offset), ascending: the lines after this serial begin at this offset
        self._marks: dict[JobId, list[tuple[int, int]]] = {}

    def newer(self, job: Job, serial: float) -> list[LogEntry]:
        """Return the lines after `serial` that the given job does not have, oldest first; the first mebibyte of them.

        Never raises: an unreadable file counts as empty.
        """
        serial = max(serial, job.next_log_serial - 1)
        marks = self._marks.get(job.job_id, [(0, 0)])
        offset = marks[bisect.bisect_right(marks, serial, key=lambda mark: mark[0]) - 1][1]
        path = self._paths.job_log(job.job_id)
        while True:
            try:
                lines, after = read_lines(path, offset)
            except OSError as error:
                _log.warning("joblog.unreadable", job=job.job_id, reason=error)
                return []
            if after == offset:
                return []
            if lines and lines[-1][1].serial > marks[-1][0]:
                self._marks.setdefault(job.job_id, marks).append((lines[-1][1].serial, after))
            if found := [entry for _, entry in lines if entry.serial > serial]:
                return found
            offset = after

    def add_all(self, job: Job) -> Job:
        """Return the job with all its lines. Raises: Unavailable: they cannot be read at the moment."""
        path = self._paths.job_log(job.job_id)
        try:
            return add_lines(job, read_all_lines(path))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"'{path}' cannot be read: {reason}") from error

    def complete(self, job: Job) -> Job:
        """Return the job with all lines that can be read. Never raises."""
        try:
            return self.add_all(job)
        except Unavailable as error:
            _log.warning("joblog.unreadable", job=job.job_id, reason=error)
            return job

    def forget(self, job_id: JobId) -> None:
        """Remove the log, because the job's file has all its lines."""
        self._marks.pop(job_id, None)
        with contextlib.suppress(OSError):
            os.unlink(self._paths.job_log(job_id))


# The wait histories of jobs: luxid's additions, and reading for clients.
#
# Never raises: a history that cannot be written or read is only missed.
#
# Source: common/queue/sidefiles.py; DESIGN section 6, "Explain".


# number of jobs written at once
_BATCH: Final = 1000


class WaitFiles:
    """Writes and reads the files with the waits of jobs."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def write(self, waited: Iterable[Waited]) -> None:
        """Append these spans; one write for jobs that share a file."""
        left = iter(waited)
        while batch := list(islice(left, _BATCH)):
            batch.sort(key=lambda each: each.job_id)
            for path, jobs in groupby(batch, lambda each: self._paths.waits_file(each.job_id)):
                spans = [(each.job_id, span) for each in jobs for span in each.spans]
                try:
                    append_spans(path, spans)
                except (OSError, TypeError) as error:
                    _log.warning("waits.not_written", file=path, reason=error, effect="the history lacks these waits")

    def read(self, job_id: JobId) -> list[Span]:
        """Return the written spans of a job, live or archived."""
        path = self._paths.waits_file(job_id)
        try:
            return read_spans(path, job_id)
        except OSError as error:
            _log.warning("waits.unreadable", file=path, reason=error)
            return []


# maximum of files of one submission in a group, so that other writes pass between
_JOBS_AT_ONCE: Final = 250


class Store:
    """The queue's files; made by `open_store`."""

    def __init__(self, paths: Paths, files: QueueFiles, lock_fd: int, serial: JobId) -> None:
        self.paths = paths
        self.files = files
        self.logs = JobLogs(paths)
        self._lock_fd = lock_fd
        # last id used, also by submissions that are being written
        self._serial = serial
        self._archiver = trio.CapacityLimiter(1)

    @property
    def serial(self) -> JobId:
        return self._serial

    def raise_serial(self, at_least: JobId) -> None:
        """Never use ids up to this one: files with them were found."""
        self._serial = max(self._serial, at_least)

    def write_serial(self) -> None:
        """Make the last id durable, without a job; for threads. Raises: OSError."""
        content = f"{self._serial}\n".encode()
        durably(lambda: write_files([FileWrite(self.paths.serial_file, content)]))

    def reserve_ids(self, count: int) -> JobId:
        """Reserve some ids, so that others can get ids while these jobs are made; return the first."""
        first = JobId(self._serial + 1)
        self._serial = JobId(self._serial + count)
        return first

    def give_back_ids(self, first: JobId, count: int) -> None:
        """Return unused ids, the last of a reservation; they are lost if later ones were reserved meanwhile."""
        if self._serial == first + count - 1:
            self._serial = JobId(first - 1)

    async def add_jobs(self, jobs: Sequence[Job], first: Sequence[FileWrite] = ()) -> None:
        """Make new jobs durable, all or none of them even through a crash, together with a serial that covers them.

        Args:
            first: files that must be durable before the first of the jobs exists; removed if the jobs are not taken.

        The jobs have consecutive ids, either reserved or the next ones; these are used up, even if the write fails.

        Raises:
            Unavailable: the disk, or the cluster, refused; no job is left, and their ids are not used again.
            InvalidRequest: the cluster does not take so large a change; as for Unavailable.
            NoLongerMaster: another node has taken over; the fate of the jobs is unknown.
            TypeError, ValueError: a job cannot be written as JSON; nothing is written.
        """
        files = await in_turns(self._job_files(jobs))
        before = list(first)
        if len(jobs) > 1:
            before.append(note_of(self.paths, jobs[0].job_id, len(jobs), (write.path for write in first)))
        self.raise_serial(jobs[-1].job_id)
        serial = FileWrite(self.paths.serial_file, f"{self._serial}\n".encode())
        head = [*(attrs.evolve(write, precedes=True) for write in before), serial]
        groups = [files[start : start + _JOBS_AT_ONCE] for start in range(0, len(files), _JOBS_AT_ONCE)]
        try:
            await self.files.replace([*head, *groups[0]], *groups[1:])
        except OSError as error:
            await self._take_back([write.path for write in files], [write.path for write in before])
            raise Unavailable(
                f"the queue cannot be written: {_reason(error)}; nothing was submitted, {self._remedy(error)}"
            ) from error
        except NoLongerMaster:
            raise
        except (Unavailable, InvalidRequest):
            if len(groups) > 1:
                await self._take_back([write.path for write in files], [write.path for write in before])
            raise
        if len(jobs) > 1:
            await self._remove_note(before[-1].path)

    def _job_files(self, jobs: Sequence[Job]) -> Generator[int, None, list[FileWrite]]:
        """Encode in steps; each yields its number of opcodes."""
        files = []
        for job in jobs:
            files.append(FileWrite(self.paths.job_file(job.job_id), encode_job(job)))
            yield len(job.ops)
        return files

    async def _take_back(self, files: Sequence[Path], before: Sequence[Path]) -> None:
        """Remove the files of a refused submission; the next luxid removes what cannot be removed now."""
        try:
            await self.files.remove(files, were_jobs=False)
            await self.files.remove(before)
        except NoLongerMaster:
            raise
        except (OSError, GantryError) as error:
            _log.error("submission.not_taken_back", first=files[0], count=len(files), reason=error)

    def _remedy(self, error: OSError) -> str:
        if isinstance(error, FileNotFoundError):
            return f"'{self.paths.data}' was moved or removed while luxid runs: put it back, or start luxid where it is"
        if isinstance(error, PermissionError):
            return f"let the user of luxid write in '{self.paths.data}' and its folders, and try again"
        if error.errno == errno.EROFS:
            return "its disk is mounted read-only: mount it otherwise, and try again"
        return "make room and try again"

    async def _remove_note(self, note: Path) -> None:
        """Remove the note of a whole batch. If a note stays, or returns after a loss of power, all its jobs exist."""
        try:
            await self.files.discard([note])
        except OSError as error:
            _log.warning("submission.note_left", file=note, reason=error, effect="removed at the next start")

    async def save(self, job: Job) -> None:
        """Make a job's file durable. Only for a job without a process (DESIGN section 3, invariant 2).

        Raises: Unavailable: the disk refused; the file is unchanged. NoLongerMaster: another node has taken over.
        """
        try:
            await self.files.replace([FileWrite(self.paths.job_file(job.job_id), encode_job(job))])
        except OSError as error:
            raise Unavailable(f"job {job.job_id} cannot be written: {_reason(error)}") from error

    def read_job(self, job_id: JobId) -> Job:
        """Read a live job from its file.

        Raises:
            NotFound: there is no such file.
            DamagedFile: it does not hold a job.
            Unavailable: it cannot be read at the moment, which says nothing about the job.
        """
        return _read_job(self.paths.job_file(job_id), job_id)

    def find_live(self, job_id: JobId) -> Job | None:
        """Read a live job from its file; None: the file is missing or damaged. Raises: Unavailable, as `read_job`."""
        return _find(self.paths.job_file(job_id), job_id)

    def find_archived(self, job_id: JobId) -> Job | None:
        """Read an archived job, as `find_live`."""
        return _find(self.paths.archived_job_file(job_id), job_id)

    def archived_state(self, job_id: JobId) -> JobState | None:
        """The state of an archived job; None: it is not in the archive. Raises: Unavailable: it cannot be read now."""
        job = self.find_archived(job_id)
        return job.state if job is not None else None

    def is_archived(self, job_id: JobId) -> bool:
        """Raises: Unavailable: this cannot be found out at the moment."""
        path = self.paths.archived_job_file(job_id)
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise Unavailable(f"'{path}' cannot be looked at: {_reason(error)}") from error
        return True

    async def set_damaged_aside(self, job_id: JobId) -> None:
        """Move the damaged file of a live job to the folder for damaged files, durably; a missing file is not an error.

        Raises: Unavailable: the disk refused.
        """
        path = self.paths.job_file(job_id)
        try:
            await self.files.move([(path, self.paths.damaged / path.name)])
        except OSError as error:
            raise Unavailable(f"'{path}' cannot be set aside: {_reason(error)}") from error

    async def archive(self, job_ids: Sequence[JobId]) -> tuple[JobId, ...]:
        """Move the files of final jobs to the archive, durably.

        Returns: the jobs whose files no longer exist; the others are archived.
        Raises: Unavailable: a file could not be moved; the moves before it are done.
        """
        moves = [(self.paths.job_file(job_id), self.paths.archived_job_file(job_id)) for job_id in job_ids]
        try:
            missing = await self.files.move(moves, self._archiver)
        except OSError as error:
            raise Unavailable(f"the archive cannot be written: {_reason(error)}") from error
        return tuple(job_id for job_id, (source, _) in zip(job_ids, moves, strict=True) if source in missing)

    @property
    def is_drained(self) -> bool:
        # checked each time: the file may also be made by hand
        return self.paths.drain_file.exists()

    async def set_drained(self, drained: bool) -> None:  # the flag is the whole message
        """Raises: Unavailable: the disk refused."""
        try:
            if drained:
                await self.files.replace([FileWrite(self.paths.drain_file, b"", 0o644)])
            else:
                await self.files.remove([self.paths.drain_file])
        except OSError as error:
            raise Unavailable(f"the drain flag cannot be written: {_reason(error)}") from error

    def close(self) -> None:
        """Release the queue."""
        self.paths.queue_lock.unlink(missing_ok=True)
        os.close(self._lock_fd)


def open_store(paths: Paths, files: QueueFiles | None = None) -> Store:
    """Lock the queue and read its serial; give it a version where there is none, which each node does for itself.

    Args:
        files: None: there are no other nodes.
    Raises:
        Conflict: another daemon has the queue, or it has another version.
        DamagedFile: the serial is not a number, the record of removals is none, or something is neither file nor
            folder.
        OSError: the folder cannot be written.
    """
    fd = take_lock(paths)
    try:
        check_kinds([paths.queue, paths.submissions, paths.waits, paths.job_logs])
        check_version(paths)
        # a missing one is judged when the queue is read
        serial = read_serial(paths) or JobId(0)
        begin_removals(paths, serial)
        return Store(paths, files or QueueFiles(paths), fd, serial)
    except BaseException:
        os.close(fd)
        raise


def _read_job(path: Path, job_id: JobId) -> Job:
    """Raises: NotFound, DamagedFile, Unavailable; see `Store.read_job`."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no file '{path}'") from None
    except IsADirectoryError:
        raise DamagedFile(f"'{path}' is a folder", file=str(path)) from None
    except OSError as error:
        raise Unavailable(f"'{path}' cannot be read: {_reason(error)}") from error
    job = decode_job(content, str(path))
    if job.job_id != job_id:
        raise DamagedFile(f"'{path}' holds job {job.job_id}", file=str(path))
    return job


def _find(path: Path, job_id: JobId) -> Job | None:
    try:
        return _read_job(path, job_id)
    except NotFound:
        return None
    except DamagedFile as error:
        _log.warning("job.damaged", file=path, reason=error)
        return None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()

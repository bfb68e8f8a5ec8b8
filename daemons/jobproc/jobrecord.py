"""The job process's own job file: the only place where this process writes it.

Theory. A change of state is durable before the next step is taken. An opcode that gets its locks
at once and logs nothing costs two writes: running, and ended. A disk error is not a verdict on the job: the
process holds, and tries again.

After the end of the whole job no step comes. So its content is durable, and its place in the folder is not yet: luxid
syncs the folder, once for all jobs that have ended meanwhile, before it tells anybody. After a loss of power before
that the job is found *running*, as if it had been cut off a moment earlier. Whoever takes a step nevertheless calls
`make_durable` first.

A log line alone never causes a rewrite of the file. It is appended to a file beside it (`common.queue.sidefiles`),
at once or, if there are many, together with others every `_LOG_PAUSE_S`; a change of state writes them all into the
job file. Until then a line survives the end of any process, but not a loss of power: single lines are not synced. A
job keeps at most `LOG_LIMIT` lines: its file stays readable, and the memory of all readers bounded.

The file is this process's as long as it names its livelock. Another file in its place, which names another one, is
another job's (the queue was lost, and begun anew) or that of a later process (another master has taken the job up): it
is not written over, and this process ends.

Source: DESIGN sections 3 and 9; luxid.md 3.1, 4.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from common.durable.atomicfile import FileWrite, stage_files
from common.durable.durably import durably
from common.durable.folders import sync_folders
from common.errors import DamagedFile, ExecutionError, GantryError
from common.ids import JobId
from common.locks import BGL, LockMode, LockRequest, Owner
from common.paths import Paths
from common.queue.explanation import NAMED, Cause, Span, WaitKind
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import (
    CANCELED_TEXT,
    PRECEDING_FAILED,
    Job,
    LogEntry,
    OpEvent,
    Timestamp,
    apply_event,
    end_job,
    replace_op,
    set_priority,
    to_timestamp,
)
from common.queue.reasons import Try, with_failed_try
from common.queue.sidefiles import JobLogFile, OpLine, add_lines, append_spans, encode_line, read_all_lines
from common.system.livelock import Livelock
from common.system.log import get_log
from common.system.shortages import NoThread, retry_pauses, start_thread
from common.system.signals import ProcessSignals
from common.system.stamps import stamp_if_known
from protocol.wconfd.locks import InTheWay

# lines of a job; then one line says that others are left out
LOG_LIMIT: Final = 100_000
_LOG_PAUSE_S: Final = 0.02
_RETRY_S: Final = 0.5
# errors when the queue was moved away or removed: waiting does not help
_NOWHERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
_MODE: Final = 0o640
_log = get_log(__name__)


class JobRecord:
    """A job and its file; safe to use from several threads.

    Args:
        log_path: file for log lines until the next change of state.
    """

    def __init__(self, path: Path, log_path: Path, job: Job) -> None:
        self._path = path
        self._log_file = JobLogFile(log_path)
        self._job = job
        # of the file that was read, or written last; None: there was none
        self._stamp = stamp_if_known(path)
        self._lock = threading.RLock()
        self._next_serial = job.next_log_serial
        # log lines that are not in the job yet
        self._fresh: list[OpLine] = []
        # those of them that are in no file yet
        self._unsent: list[bytes] = []
        self._timer: threading.Timer | None = None
        self._last_sent_at = 0.0
        # when the work of the opcode was over, whose end is about to be written
        self._over_at: Timestamp | None = None

    @classmethod
    def load(cls, path: Path, log_path: Path, *, livelock: str, process_id: int) -> "JobRecord":
        """Read the job, and the log lines that an earlier process could not write into it. The first change
        records the new process.

        Raises: OSError, DamagedFile.
        """
        job = add_lines(decode_job(path.read_bytes(), path.name), read_all_lines(log_path))
        return cls(path, log_path, attrs.evolve(job, livelock=livelock, process_id=process_id))

    def make_durable(self) -> None:
        """Return when the end of the job survives a loss of power."""
        with self._lock:
            durably(lambda: sync_folders([self._path.parent]))

    @property
    def job(self) -> Job:
        """The present job, without the log lines that are not written yet."""
        return self._job

    def begin_waiting(self, index: int) -> None:
        """Record that the opcode waits for its locks."""
        self._apply(index, OpEvent.PICKED)

    def begin_running(self, index: int) -> None:
        """Record that the opcode's locks are held; when this returns, it may be executed."""
        self._apply(index, OpEvent.LOCKED)

    def hold_back(self, index: int) -> None:
        """Record that the opcode has waited for its locks, but must not begin now."""
        self._apply(index, OpEvent.HELD_BACK)

    def try_again(self, index: int, failed: Try, text: str) -> None:
        """Record a failed try of the opcode, which is queued again, in one write; the text is a line of its log."""
        with self._lock:
            self.log(index, text)
            self._write(replace_op(self._job, index, with_failed_try(self._job.ops[index], failed, self._instant())))

    def note_over(self) -> None:
        """Take this instant as the end that is recorded next: its locks are freed while it is written, and the work of
        their next owner must not seem to have begun before it."""
        with self._lock:
            self._over_at = _now()

    def succeed(self, index: int, result: object) -> None:
        """Record the success of the opcode; with the last one the job ends.

        Raises: ExecutionError: the result is not JSON-able; nothing has changed.
        """
        before = self._job
        try:
            self._apply(index, OpEvent.SUCCEEDED, result)
        except TypeError as error:
            self._job = before
            raise ExecutionError(f"the result is not JSON: {error}") from error

    def fail(self, error: BaseException) -> None:
        """Record the failure of the first unfinished opcode, and with it of all after it."""
        self._end(OpEvent.FAILED, [result_of(error), PRECEDING_FAILED])

    def begin_canceling(self, index: int) -> None:
        """Record that the opcode is being killed; its processes may still live."""
        self._apply(index, OpEvent.CANCEL_ASKED)

    def cancel(self, text: str = CANCELED_TEXT) -> None:
        """Cancel all unfinished opcodes; the text is their result."""
        self._end(OpEvent.CANCELED, [text])

    def set_priority(self, priority: int) -> None:
        """Give every unfinished opcode this priority."""
        with self._lock:
            self._write(set_priority(self._job, priority))

    def log(self, index: int, message: object, kind: str = "message") -> None:
        """Add a line to the opcode's log; readers see it at once (see the theory above)."""
        with self._lock:
            if self._next_serial >= LOG_LIMIT:
                if self._next_serial > LOG_LIMIT:
                    return
                kind, message = "message", f"the log of a job holds {LOG_LIMIT} lines; all after this one are left out"
            entry = LogEntry(self._next_serial, _now(), kind, _clean(message))
            self._next_serial += 1
            self._unsent.append(encode_line(index, entry))
            self._fresh.append((index, entry))
            if self._timer is None:
                self._send_soon()

    def close(self) -> None:
        """Close the log's file; lines that are not in it are in the job file, or are lost with the process."""
        with self._lock:
            self._log_file.close()

    def _send_soon(self) -> None:
        left_s = self._last_sent_at + _LOG_PAUSE_S - time.monotonic()
        if left_s <= 0:
            self._send_log()
            return
        self._timer = threading.Timer(left_s, self._send_log)
        self._timer.daemon = True
        try:
            start_thread(self._timer)
        except NoThread:
            # earlier than necessary, and in this thread
            self._send_log()

    def _send_log(self) -> None:
        with self._lock:
            self._timer = None
            lines, self._unsent = self._unsent, []
            if not lines:
                return
            try:
                self._log_file.append(lines)
            except OSError as error:
                _log.warning("joblog.not_written", file=self._path, error=error, next="with the next change of state")
            self._last_sent_at = time.monotonic()

    def _write_patiently(self, content: bytes, *, is_end: bool) -> None:
        """Write the file, as soon as the disk takes it: a disk that is full or faulty for a while must neither lose
        what a job has done nor change its end.

        Args: is_end: whether the job ends with it.
        Raises: OSError: the folder for it no longer exists, or the file is another's.
        """
        is_told = False
        while True:
            try:
                self._check_own()
                staged = stage_files([FileWrite(self._path, content, _MODE)])
                durably(staged.rename if is_end else staged.put_in_place)
                self._stamp = stamp_if_known(self._path)
                return
            except OSError as error:
                if error.errno in _NOWHERE:
                    raise
                if not is_told:
                    reason = os.strerror(error.errno or 0).lower()
                    _log.error("job.not_written", file=self._path, reason=reason, retry_s=_RETRY_S)
                is_told = True
            time.sleep(_RETRY_S)

    def _check_own(self) -> None:
        """Raises: OSError: the file is another's (ESTALE), or cannot be read."""
        if (stamp := stamp_if_known(self._path)) is None or stamp == self._stamp:
            return
        try:
            found = decode_job(self._path.read_bytes(), self._path.name).livelock
        except (FileNotFoundError, DamagedFile):
            return
        if found != self._job.livelock:
            text = f"it is another job's, or another process has it ({found}); this one writes nothing more"
            raise OSError(errno.ESTALE, text, str(self._path))

    def _apply(self, index: int, event: OpEvent, result: object = None) -> None:
        with self._lock:
            now = self._instant()
            job = replace_op(self._job, index, apply_event(self._job.ops[index], event, now, result))
            self._write(attrs.evolve(job, end_at=now) if job.is_final else job)

    def _end(self, event: OpEvent, results: Sequence[object]) -> None:
        with self._lock:
            self._write(end_job(self._job, event, self._instant(), results))

    def _instant(self) -> Timestamp:
        """The instant of a change: now, or when the work was over."""
        over_at, self._over_at = self._over_at, None
        return over_at or _now()

    def _write(self, job: Job) -> None:
        # first the log: a reader that continues in the log must find all lines there that the file will have
        self._send_log()
        job = add_lines(job, self._fresh)
        self._write_patiently(encode_job(job), is_end=job.next_index is None)
        self._job = job
        self._fresh.clear()


def result_of(error: BaseException) -> list[object]:
    """An error as the result of an opcode: `[class name, arguments]`, always JSON-able."""
    if isinstance(error, GantryError):
        return [error.wire_name, _clean(error.wire_args())]
    text = str(error) or "no further details"
    return [ExecutionError.wire_name, [_clean(f"{type(error).__name__}: {text}")]]


def _clean(value: object) -> object:
    """Remove lone surrogates (undecodable bytes of file names), which JSON cannot have."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {str(_clean(key)): _clean(item) for key, item in value.items()}
    return value if isinstance(value, int | float | None) else _clean(str(value))


def _now() -> Timestamp:
    return to_timestamp(time.time())


# Read the job at the start of its process: patiently, since a reading error says nothing about the job.
#
# Source: DESIGN section 11, "an error of the disk or of descriptors".


def load_record(job_id: JobId, paths: Paths, livelock: Livelock, signals: ProcessSignals) -> JobRecord | None:
    """Return the job's record, as soon as its file can be read.

    Returns: None: the file is missing or damaged, or the job is to be canceled before it could be read. Nothing
        has happened to the job, and luxid judges it when this process is gone.
    """
    for pause_s in retry_pauses():
        try:
            return JobRecord.load(
                paths.job_file(job_id), paths.job_log(job_id), livelock=livelock.path, process_id=os.getpid()
            )
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, GantryError) as error:
            _log.error("job.damaged", job=job_id, reason=error, effect="left to luxid")
            return None
        except OSError as error:
            _log.error("job.unreadable", job=job_id, reason=error, effect="it begins when it is read", retry_s=pause_s)
        if signals.cancel_asked:
            return None
        # a signal ends the pause
        signals.wait(pause_s)
    raise AssertionError("pauses never end")


# The job process's part of the job's history: its waits for locks.
#
# Never raises: a history that cannot be written is only missed.
#
# Source: common/queue/explanation.py; DESIGN section 6, "Explain".


# function called with the blocking locks, as far as they are known
TellWait = Callable[[Sequence[InTheWay]], None]
# request of nearly every opcode, which hardly ever blocks it
_NO_BIG_LOCK: Final = LockRequest(BGL, LockMode.SHARED)


class WaitRecord:
    """Writes one job's waits for locks.

    Args:
        path: shared with other jobs.
    """

    def __init__(self, path: Path, job_id: JobId) -> None:
        self._path = path
        self._job_id = job_id

    @contextmanager
    def waiting(self, requests: Sequence[LockRequest], blockers: Sequence[Owner]) -> Iterator[TellWait]:
        """Record a wait that lasts until this context ends, also by an error; a very short one is not written.

        Args:
            requests: requested locks; others may hold only some of them.
        Yields: a function to call once when the wait lasts: from then on others see it.
        """
        names = [str(request.lock) for request in requests if request != _NO_BIG_LOCK] or [str(BGL)]
        wait = Span(_cause(names, blockers), time.time(), None)
        told = False

        def tell(in_the_way: Sequence[InTheWay]) -> None:
            nonlocal told, wait
            if in_the_way:
                names, holders = ([str(each.lock) for each in in_the_way], [each.holder for each in in_the_way])
                wait = attrs.evolve(wait, cause=_cause(names, holders))
            self._append(wait)
            told = True

        try:
            yield tell
        finally:
            whole = attrs.evolve(wait, until=time.time())
            if told or not whole.is_short:
                self._append(whole)

    def _append(self, span: Span) -> None:
        try:
            append_spans(self._path, [(self._job_id, span)])
        except (OSError, TypeError) as error:
            _log.warning("waits.not_written", job=self._job_id, error=error, effect="the job's history lacks a wait")


def _cause(names: Sequence[str], owners: Sequence[Owner]) -> Cause:
    idents = list(dict.fromkeys(owner.ident for owner in owners))
    job_ids = [ident for ident in idents if isinstance(ident, int)]
    others = [ident for ident in idents if isinstance(ident, str)]
    locks = tuple(dict.fromkeys(names))
    return Cause(
        WaitKind.LOCKS, tuple(job_ids[:NAMED]), locks[:NAMED], tuple(others[:NAMED]), more=len(job_ids[NAMED:])
    )

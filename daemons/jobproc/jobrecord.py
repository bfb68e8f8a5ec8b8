"""The job process's own job file: the one place where it is written.

Theory. A change of state is durable before the next step is taken. An opcode that gets its locks
at once and says nothing costs two writes: running, and ended. A disk that refuses is no verdict on the job: the
process holds, and tries again.

A line of the log alone never rewrites the file. It is appended to a file beside it (`common.queue.joblog`), at once
or, when there are many, together with others every `_LOG_PAUSE_S`; a change of state takes along what is there.
Until then it is safe from the end of any process, but not from a loss of power: no line is made durable by itself. A
job keeps at most `LOG_LIMIT` lines: its file stays readable, and the memory of all who read it bounded.

Source: DESIGN sections 3 and 9; luxid.md 3.1, 4.
"""

import errno
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import ExecutionError, GantryError
from common.queue.endtexts import CANCELED_TEXT, PRECEDING_FAILED
from common.queue.jobfile import decode_job, encode_job
from common.queue.joblog import JobLogFile, OpLine, add_lines, encode_line, read_all_lines
from common.queue.jobs import (
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
from common.system.log import get_log
from common.system.threadstart import NoThread, start_thread

# of a job; then one line says that others are left out
LOG_LIMIT: Final = 100_000
_LOG_PAUSE_S: Final = 0.02
_RETRY_S: Final = 0.5
# the queue was moved away or removed: nothing will be better later
_NOWHERE: Final = (errno.ENOENT, errno.ENOTDIR)
_MODE: Final = 0o640
_log = get_log(__name__)


class JobRecord:
    """A job and its file; safe to use from several threads.

    Args:
        log_path: where log lines go until the next change of state.
    """

    def __init__(self, path: Path, log_path: Path, job: Job) -> None:
        self._path = path
        self._log_file = JobLogFile(log_path)
        self._job = job
        self._lock = threading.RLock()
        self._next_serial = job.next_log_serial
        # log lines that are not in the job yet: (index of the opcode, line)
        self._fresh: list[OpLine] = []
        # those of them that are in no file yet
        self._unsent: list[bytes] = []
        self._timer: threading.Timer | None = None
        self._last_sent_at = 0.0

    @classmethod
    def load(cls, path: Path, log_path: Path, *, livelock: str, process_id: int) -> "JobRecord":
        """Read the job, and log lines that an earlier process could not write into it; the process is written down
        with the first change.

        Raises: OSError, DamagedFile.
        """
        job = add_lines(decode_job(path.read_bytes(), path.name), read_all_lines(log_path))
        return cls(path, log_path, attrs.evolve(job, livelock=livelock, process_id=process_id))

    @property
    def job(self) -> Job:
        """The job as it is now, but for log lines that are not written yet."""
        return self._job

    def begin_waiting(self, index: int) -> None:
        """The opcode waits for its locks."""
        self._apply(index, OpEvent.PICKED)

    def begin_running(self, index: int) -> None:
        """The opcode's locks are held; once this returned it may be executed."""
        self._apply(index, OpEvent.LOCKED)

    def hold_back(self, index: int) -> None:
        """The opcode has waited for its locks, and is not to begin now."""
        self._apply(index, OpEvent.HELD_BACK)

    def succeed(self, index: int, result: object) -> None:
        """The opcode ended well; with the last one the job ends.

        Raises: ExecutionError: the result is not JSON-able; nothing has changed.
        """
        before = self._job
        try:
            self._apply(index, OpEvent.SUCCEEDED, result)
        except TypeError as error:
            self._job = before
            raise ExecutionError(f"the result is not JSON: {error}") from error

    def fail(self, error: BaseException) -> None:
        """The first opcode that has not ended failed, and with it all after it."""
        self._end(OpEvent.FAILED, [result_of(error), PRECEDING_FAILED])

    def begin_canceling(self, index: int) -> None:
        """The opcode is being killed; what it started may still live."""
        self._apply(index, OpEvent.CANCEL_ASKED)

    def cancel(self, text: str = CANCELED_TEXT) -> None:
        """Nothing that has not ended will be done; the text is the result."""
        self._end(OpEvent.CANCELED, [text])

    def set_priority(self, priority: int) -> None:
        """Give every opcode that has not ended this priority."""
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
        """Close the log's file; what is not in it is in the job's, or is lost with the process."""
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
            # sooner than it needs to be, and by this thread
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

    def _write_patiently(self, content: bytes) -> None:
        """Write the file, as soon as the disk takes it: what a job has done must not be lost, nor become another end,
        because of a disk that is full or unwell for a while.

        Raises: OSError: there is no folder any more to write it to.
        """
        is_told = False
        while True:
            try:
                durably(lambda: write_file(self._path, content, mode=_MODE))
                return
            except OSError as error:
                if error.errno in _NOWHERE:
                    raise
                if not is_told:
                    reason = os.strerror(error.errno or 0).lower()
                    _log.error("job.not_written", file=self._path, reason=reason, retry_s=_RETRY_S)
                is_told = True
            time.sleep(_RETRY_S)

    def _apply(self, index: int, event: OpEvent, result: object = None) -> None:
        with self._lock:
            now = _now()
            job = replace_op(self._job, index, apply_event(self._job.ops[index], event, now, result))
            self._write(attrs.evolve(job, end_at=now) if job.is_final else job)

    def _end(self, event: OpEvent, results: Sequence[object]) -> None:
        with self._lock:
            self._write(end_job(self._job, event, _now(), results))

    def _write(self, job: Job) -> None:
        # first here: who reads on in the log must find there all that the file will have
        self._send_log()
        job = add_lines(job, self._fresh)
        self._write_patiently(encode_job(job))
        self._job = job
        self._fresh.clear()


def result_of(error: BaseException) -> list[object]:
    """An error as the result of an opcode: `[class name, arguments]`, JSON-able whatever it holds."""
    if isinstance(error, GantryError):
        return [error.wire_name, _clean(error.wire_args())]
    text = str(error) or "no further details"
    return [ExecutionError.wire_name, [_clean(f"{type(error).__name__}: {text}")]]


def _clean(value: object) -> object:
    """Without lone surrogates (undecodable bytes of file names), which are no JSON."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {str(_clean(key)): _clean(item) for key, item in value.items()}
    return value if isinstance(value, int | float | None) else _clean(str(value))


def _now() -> Timestamp:
    return to_timestamp(time.time())

"""The job process's own job file: the one place where it is written.

Theory. A change of state is durable before the next step is taken. An opcode that gets its locks
at once and says nothing costs two writes: running, and ended.

A line of the log alone is less urgent, and units can be chatty: lines are collected and written
together by a timer, `_LOG_DELAY_S` after the first of them, and never more often than so that the
disk is busy with it for a tenth of the time; a change of state takes along what is there. Such a write
is as durable as any other. Considered and rejected: to leave out the fsync for it. The rename could
then reach the disk before the content, and a loss of power would leave an empty job file.

Source: DESIGN sections 3 and 9; luxid.md 3.1, 4.
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from common.atomicfile import write_file
from common.errors import ExecutionError, GantryError
from common.jobfile import decode_job, encode_job
from common.jobs import (
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

CANCELED_TEXT: Final = "job was canceled on request"
PRECEDING_FAILED: Final = [ExecutionError.wire_name, ["preceding opcode failed"]]
_LOG_DELAY_S: Final = 0.05
_LOG_SHARE: Final = 10
_MODE: Final = 0o640


class JobRecord:
    """A job and its file; safe to use from several threads."""

    def __init__(self, path: Path, job: Job) -> None:
        self._path = path
        self._job = job
        self._lock = threading.RLock()
        self._next_serial = job.next_log_serial
        # log lines that are not in the job yet: (index of the opcode, line)
        self._fresh: list[tuple[int, LogEntry]] = []
        self._timer: threading.Timer | None = None
        self._last_write_s = 0.0

    @classmethod
    def load(cls, path: Path, *, livelock: str, process_id: int) -> "JobRecord":
        """Read the job; the process is written down with the first change.

        Raises: OSError, DamagedFile.
        """
        job = decode_job(path.read_bytes(), path.name)
        return cls(path, attrs.evolve(job, livelock=livelock, process_id=process_id))

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

    def succeed(self, index: int, result: Any) -> None:
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

    def cancel(self) -> None:
        """Nothing that has not ended will be done."""
        self._end(OpEvent.CANCELED, [CANCELED_TEXT])

    def set_priority(self, priority: int) -> None:
        """Give every opcode that has not ended this priority."""
        with self._lock:
            self._write(set_priority(self._job, priority))

    def log(self, index: int, message: Any, kind: str = "message") -> None:
        """Add a line to the opcode's log; readers see it soon (see the theory above)."""
        with self._lock:
            entry = LogEntry(self._next_serial, _now(), kind, _clean(message))
            self._next_serial += 1
            self._fresh.append((index, entry))
            if self._timer is None:
                delay_s = max(_LOG_DELAY_S, _LOG_SHARE * self._last_write_s)
                self._timer = threading.Timer(delay_s, self._write_log)
                self._timer.daemon = True
                self._timer.start()

    def _write_log(self) -> None:
        with self._lock:
            self._timer = None
            if self._fresh:
                self._write(self._job)

    def _apply(self, index: int, event: OpEvent, result: Any = None) -> None:
        with self._lock:
            now = _now()
            job = replace_op(self._job, index, apply_event(self._job.ops[index], event, now, result))
            self._write(attrs.evolve(job, end_at=now) if job.is_final else job)

    def _end(self, event: OpEvent, results: Sequence[Any]) -> None:
        with self._lock:
            self._write(end_job(self._job, event, _now(), results))

    def _write(self, job: Job) -> None:
        job = _with_log(job, self._fresh)
        content = encode_job(job)
        began = time.monotonic()
        write_file(self._path, content, mode=_MODE)
        self._last_write_s = time.monotonic() - began
        self._job = job
        self._fresh.clear()


def result_of(error: BaseException) -> list[Any]:
    """An error as the result of an opcode: `[class name, arguments]`, JSON-able whatever it holds."""
    if isinstance(error, GantryError):
        return [error.wire_name, _clean(error.wire_args())]
    text = str(error) or "no further details"
    return [ExecutionError.wire_name, [_clean(f"{type(error).__name__}: {text}")]]


def _with_log(job: Job, fresh: Sequence[tuple[int, LogEntry]]) -> Job:
    """The job with these lines; cost: linear in the lines of the opcodes that they belong to."""
    for index in dict.fromkeys(index for index, _ in fresh):
        op = job.ops[index]
        lines = tuple(entry for place, entry in fresh if place == index)
        job = replace_op(job, index, attrs.evolve(op, log=op.log + lines))
    return job


def _clean(value: Any) -> Any:
    """Without lone surrogates (undecodable bytes of file names), which are no JSON."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value if isinstance(value, int | float | None) else _clean(str(value))


def _now() -> Timestamp:
    return to_timestamp(time.time())

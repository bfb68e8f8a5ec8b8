"""A trace from the job files of an installation, in the queue and in the archive; nothing is changed.

A job of several opcodes becomes one that takes the locks of all of them for the sum of their execution
times. A job that waited for other jobs arrives when the last of those ended, one that was to begin later at that
instant, and one whose command was tried again when its last try began. Locks that an opcode found
only while it ran are in no job file: such jobs are counted, and have only the known locks.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from common.errors import DamagedFile, GantryError
from common.ids import JobId
from common.lockdecl import LockDeclaration, Scope, requests_for
from common.locks import BGL, Lock, LockMode
from common.opcodes.registry import parse_opcode
from common.paths import Paths
from common.queue.dependencies import Dependency
from common.queue.files.jobfile import decode_job
from common.queue.jobs import Job, JobOp, Timestamp, to_seconds
from common.queue.terms import terms_of
from common.queue.tries import tries_of
from daemons.luxid.simulate.trace import TraceJob, in_order

_JOB: Final = re.compile(r"job-\d+", re.ASCII)


@attrs.frozen
class Exported:
    trace: tuple[TraceJob, ...]
    # number of jobs without an execution, or without an end; and of unreadable files
    unfinished: int
    unreadable: int
    # number of jobs in the trace that also had unknown locks
    partly_known: int


def export(paths: Paths) -> Exported:
    """Raises: OSError: the queue's folder cannot be read."""
    contents = [_decode(path, content) for path, content in _contents(paths)]
    jobs = {job.job_id: job for job in contents if job is not None}
    ends = {job_id: _seconds(job.end_at) for job_id, job in jobs.items() if job.end_at}
    executed = [job for job in jobs.values() if _is_usable(job)]
    declared = {job.job_id: [_declaration(op) for op in _executed(job)] for job in executed}
    return Exported(
        trace=in_order(_trace_job(job, declared[job.job_id], ends) for job in sorted(executed, key=_id)),
        unfinished=len(jobs) - len(executed),
        unreadable=contents.count(None),
        partly_known=sum(not all(map(_is_known, each)) for each in declared.values()),
    )


def _job_files(paths: Paths) -> Iterator[Path]:
    yield from _jobs_in(paths.queue)
    if paths.archive.exists():
        for name in os.listdir(paths.archive):
            if name.isdigit():
                yield from _jobs_in(paths.archive / name)


def _jobs_in(folder: Path) -> list[Path]:
    return [folder / name for name in os.listdir(folder) if _JOB.fullmatch(name)]


def _contents(paths: Paths) -> Iterator[tuple[Path, bytes]]:
    for path in _job_files(paths):
        # a file that is archived meanwhile is found in the archive
        with contextlib.suppress(FileNotFoundError):
            yield path, path.read_bytes()


def _decode(path: Path, content: bytes) -> Job | None:
    try:
        return decode_job(content, str(path))
    except DamagedFile:
        return None


def _id(job: Job) -> JobId:
    return job.job_id


def _executed(job: Job) -> list[JobOp]:
    return [op for op in job.ops if op.exec_at and op.end_at]


def _is_usable(job: Job) -> bool:
    return job.is_final and job.received_at is not None and bool(_executed(job))


def _trace_job(job: Job, declared: Iterable[LockDeclaration | None], ends: Mapping[JobId, float]) -> TraceJob:
    ops = _executed(job)
    assert job.received_at is not None
    duration_s = sum(_seconds(op.end_at) - _seconds(op.exec_at) for op in ops)
    return TraceJob(
        arrival_s=max(
            _seconds(job.received_at), *(ends.get(each, 0.0) for each in _awaited(job)), *_deferred(job), 0.0
        ),
        # clocks may have been set back
        duration_s=round(max(duration_s, 0.0), 6),
        locks=_locks(declared),
        priority=min(op.priority for op in ops),
        uses=terms_of(job).uses,
    )


def _awaited(job: Job) -> Iterator[JobId]:
    for op in job.ops:
        for item in op.input.get("depends") or ():
            try:
                yield JobId(Dependency.from_wire(item).job_id)
            except GantryError:
                continue


def _deferred(job: Job) -> Iterator[float]:
    """The instants before which the job, as far as its file tells, was not to begin."""
    yield terms_of(job).begin_at or 0.0
    yield from (each.next_at for op in job.ops for each in tries_of(op))


def _declaration(op: JobOp) -> LockDeclaration | None:
    try:
        return parse_opcode(_plain(op.input)).lock_declaration()
    except GantryError:
        return None


def _plain(op_input: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in op_input.items() if key not in ("depends", "reason", "priority")}


def _is_known(declaration: LockDeclaration | None) -> bool:
    return declaration is not None and not any(
        entry.scope is Scope.UNKNOWN for entries in declaration.levels.values() for entry in entries
    )


def _locks(declared: Iterable[LockDeclaration | None]) -> dict[Lock, LockMode]:
    """The strongest mode of each lock; the BGL only if it is exclusive, because all jobs share it anyway."""
    locks: dict[Lock, LockMode] = {}
    for declaration in declared:
        if declaration is None:
            continue
        if declaration.is_big_lock:
            locks[BGL] = LockMode.EXCLUSIVE
        for level, entries in declaration.levels.items():
            for request in requests_for(level, entries):
                if request.mode is not None and request.mode.covers(locks.get(request.lock)):
                    locks[request.lock] = request.mode
    return locks


def _seconds(at: Timestamp | None) -> float:
    return to_seconds(at) if at else 0.0

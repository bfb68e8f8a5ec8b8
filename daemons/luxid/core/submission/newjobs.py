"""From a submission to the jobs as their files will say: all checks, before an id is spent.

Source: luxid.md 2.1-2.3, 5.4, 13; DESIGN section 11.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from common.errors import GantryError, InvalidRequest
from common.ids import JobId
from common.opcodes.base import OpCode, write_opcode
from common.opcodes.registry import parse_opcode
from common.queue.dependencies import Dependency, resolve
from common.queue.jobs import Job, JobOp, Timestamp
from common.queue.reasons import ReasonEntry, ReasonTrail, opcode_source
from common.queue.submitter import JobOwner, owner_entries
from daemons.luxid.core.submission.jobbounds import JobBounds

E = TypeVar("E", bound=GantryError)
ParsedJob = tuple[OpCode, ...]

# stands for the id of a refused job: no id is 0
_REFUSED: Final = JobId(0)


# a job, or the error by which it is refused
Wanted = ParsedJob | GantryError


def parse_jobs(
    jobs: Sequence[Sequence[Mapping[str, object]]], bounds: JobBounds
) -> Generator[int, None, tuple[Wanted, ...]]:
    """Read every opcode of a submission in steps; each yields the number of opcodes it read.

    Returns: for each the job, or why it is refused by itself: it has no opcode, or is beyond the bounds.
    Raises:
        InvalidRequest, OpcodeUnknown: the first opcode that is none of ours, with its place: `job 2, opcode 1: ...`.
            Ganeti refuses the whole call for it.
    """
    parsed: list[Wanted] = []
    for number, ops in enumerate(jobs, 1):
        parsed.append((yield from _parse_job(ops, bounds, [f"job {number}"] if len(jobs) > 1 else [])))
    return tuple(parsed)


def _parse_job(
    ops: Sequence[Mapping[str, object]], bounds: JobBounds, where: list[str]
) -> Generator[int, None, Wanted]:
    yield 1
    if not ops:
        return InvalidRequest(": ".join([*where, "a job needs at least one opcode; got an empty list"]))
    try:
        size = bounds.check_input(ops)
    except InvalidRequest as error:
        return _at(error, ": ".join([*where, ""]))
    parsed = []
    for n, op in enumerate(ops, 1):
        parsed.append(_parse_op(op, position := ", ".join([*where, f"opcode {n}"])))
        try:
            bounds.check_opcode(parsed[-1], size)
        except InvalidRequest as error:
            return _at(error, f"{position}: ")
        yield 1
    return tuple(parsed)


def _parse_op(op: Mapping[str, object], where: str) -> OpCode:
    try:
        return parse_opcode(op)
    except GantryError as error:
        raise _at(error, f"{where}: ") from error


def _at(error: E, where: str) -> E:
    return type(error)(f"{where}{error.message}", **error.fields)


def build_jobs(
    jobs: Sequence[Wanted],
    first_id: JobId,
    received: tuple[Timestamp, int],
    owner: JobOwner | None = None,
    refusal: Callable[[Job], GantryError | None] = lambda _: None,
) -> Generator[int, None, tuple[Job | GantryError, ...]]:
    """The jobs with the ids from `first_id` on, dependencies absolute, opcodes in their normal form; in steps.

    Args:
        jobs: an error for one that is refused already.
        received: the time, as `[seconds, microseconds]` and in nanoseconds.
        owner: whose the jobs are; None: the daemons' user's.
        refusal: returns why a job, as it would be, is not taken.
    Returns:
        For each a job, or why it is none: what is given, what `refusal` says, a dependency on a job that is
        refused, on the job itself, or on an id that was never given, which is a typing error. One on a job that
        is gone is none: the job is taken, and ends in error. The jobs have consecutive ids.
    """
    ids: list[JobId] = []
    next_id = first_id
    built: list[Job | GantryError] = []
    for ops in jobs:
        yield 1
        job: Job | GantryError
        if isinstance(ops, GantryError):
            job = ops
        else:
            job = yield from _build_job(ops, next_id, ids, first_id, received, owner)
        if isinstance(job, Job):
            job = refusal(job) or job
        ids.append(job.job_id if isinstance(job, Job) else _REFUSED)
        next_id = JobId(next_id + isinstance(job, Job))
        built.append(job)
    return tuple(built)


def _build_job(
    ops: ParsedJob,
    job_id: JobId,
    before: Sequence[JobId],
    first_id: JobId,
    received: tuple[Timestamp, int],
    owner: JobOwner | None,
) -> Generator[int, None, Job | GantryError]:
    """Args: before: the ids of the jobs before it in the submission, `_REFUSED` for one that is refused."""
    received_at, received_ns = received
    if owner is not None:
        ops = _owned(ops, owner_entries(owner, received_ns))
    built = []
    for index, op in enumerate(ops):
        try:
            built.append(_build_op(op, index, job_id, before, first_id, received_ns))
        except InvalidRequest as error:
            return error
        yield 1
    return Job(job_id=job_id, ops=tuple(built), received_at=received_at)


def _owned(ops: ParsedJob, entries: ReasonTrail) -> ParsedJob:
    return (attrs.evolve(ops[0], reason=(*ops[0].reason, *entries)), *ops[1:])


def _build_op(
    op: OpCode, index: int, job_id: JobId, before: Sequence[JobId], first_id: JobId, received_ns: int
) -> JobOp:
    entry = ReasonEntry(opcode_source(op.OP_ID), f"job={job_id};index={index}", received_ns)
    reason, depends = (*op.reason, entry), op.depends
    if depends:
        where = f"job {len(before) + 1}, opcode {index + 1}: "
        depends = tuple(_absolute(dependency, before, first_id, where) for dependency in depends)
    given = attrs.evolve(op, reason=reason, depends=depends)
    return JobOp(input=write_opcode(given), priority=op.priority, extra=_NOTHING)


_NOTHING: Mapping[str, object] = {}


def _absolute(dependency: Dependency, before: Sequence[JobId], first_id: JobId, where: str) -> Dependency:
    if dependency.job_id < 0:
        try:
            found = resolve(dependency, len(before), before)
        except InvalidRequest as error:
            raise InvalidRequest(f"{where}{error.message}") from error
        if found.job_id == _REFUSED:
            named = len(before) + dependency.job_id + 1
            raise InvalidRequest(f"{where}dependency on job {named} of this submission, which was not taken")
        return found
    target = JobId(dependency.job_id)
    if not 0 < target < first_id:
        raise InvalidRequest(
            f"{where}dependency on job {target}, an id not given yet; "
            "jobs submitted together name each other by relative ids, e.g. -1"
        )
    return dependency

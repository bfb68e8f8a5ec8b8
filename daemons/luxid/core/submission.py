"""From what a client submits to the jobs as their files will say: all checks before an id is spent.

Source: luxid.md 2.1-2.3, 5.4, 13; DESIGN section 11.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from common.dependencies import Dependency, resolve
from common.errors import GantryError, InvalidRequest
from common.jobs import Job, JobOp, Timestamp
from common.locks import JobId
from common.opcodes.base import OpCode, write_opcode
from common.opcodes.registry import parse_opcode
from common.reasons import ReasonEntry, opcode_source
from common.submitter import JobOwner, owner_entry
from daemons.luxid.core.jobbounds import JobBounds

ParsedJob = tuple[OpCode, ...]

# in the place of an id: none is 0
_REFUSED: Final = JobId(0)


def parse_jobs(jobs: Sequence[Sequence[Mapping[str, Any]]], bounds: JobBounds) -> tuple[ParsedJob, ...]:
    """Read every opcode of a submission.

    Raises: InvalidRequest, OpcodeUnknown: the first that is wrong, with its place: `job 2, opcode 1: ...`.
    """
    return tuple(
        _parse_job(ops, bounds, [f"job {place}"] if len(jobs) > 1 else []) for place, ops in enumerate(jobs, 1)
    )


def _parse_job(ops: Sequence[Mapping[str, Any]], bounds: JobBounds, where: list[str]) -> ParsedJob:
    if not ops:
        raise InvalidRequest(": ".join([*where, "a job needs at least one opcode; got an empty list"]))
    try:
        size = bounds.check_input(ops)
    except InvalidRequest as error:
        raise InvalidRequest(": ".join([*where, error.message]), **error.fields) from error
    return tuple(_parse_op(op, bounds, size, ", ".join([*where, f"opcode {n}"])) for n, op in enumerate(ops, 1))


def _parse_op(op: Mapping[str, Any], bounds: JobBounds, size_bytes: int, where: str) -> OpCode:
    try:
        parsed = parse_opcode(op)
        bounds.check_opcode(parsed, size_bytes)
    except GantryError as error:
        raise type(error)(f"{where}: {error.message}", **error.fields) from error
    return parsed


def build_jobs(
    jobs: Sequence[ParsedJob | GantryError],
    first_id: JobId,
    received: tuple[Timestamp, int],
    owner: JobOwner | None = None,
    refusal: Callable[[Job], GantryError | None] = lambda _: None,
) -> tuple[Job | GantryError, ...]:
    """The jobs with the ids from `first_id` on, dependencies absolute, opcodes in their normal form.

    Args:
        jobs: an error for one that is refused already.
        received: the time, as `[seconds, microseconds]` and in nanoseconds.
        owner: whose the jobs are; None: the daemons' user's.
        refusal: why a job, as it would be, is not taken.
    Returns:
        For each a job, or why it is none: what is given, what `refusal` says, a dependency on a job that is
        refused, on the job itself, or on an id that was never given, which is a typing error. One on a job that
        is gone is none: the job is taken, and ends in error. The jobs have consecutive ids.
    """
    ids: list[JobId] = []
    next_id = first_id
    built: list[Job | GantryError] = []
    for ops in jobs:
        job = ops if isinstance(ops, GantryError) else _build_job(ops, next_id, ids, first_id, received, owner)
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
) -> Job | GantryError:
    """Args: before: the ids of the jobs before it in the submission, `_REFUSED` for one that is refused."""
    received_at, received_ns = received
    if owner is not None:
        ops = _owned(ops, owner_entry(owner, received_ns))
    try:
        built = tuple(_build_op(op, index, job_id, before, first_id, received_ns) for index, op in enumerate(ops))
    except InvalidRequest as error:
        return error
    return Job(job_id=job_id, ops=built, received_at=received_at)


def _owned(ops: ParsedJob, entry: ReasonEntry) -> ParsedJob:
    return (attrs.evolve(ops[0], reason=(*ops[0].reason, entry)), *ops[1:])


def _build_op(
    op: OpCode, index: int, job_id: JobId, before: Sequence[JobId], first_id: JobId, received_ns: int
) -> JobOp:
    entry = ReasonEntry(opcode_source(op.OP_ID), f"job={job_id};index={index}", received_ns)
    changes: dict[str, Any] = {"reason": (*op.reason, entry)}
    if op.depends:
        where = f"job {len(before) + 1}, opcode {index + 1}: "
        changes["depends"] = tuple(_absolute(dependency, before, first_id, where) for dependency in op.depends)
    return JobOp(input=write_opcode(attrs.evolve(op, **changes)), priority=op.priority, extra=_NOTHING)


_NOTHING: Mapping[str, Any] = {}


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

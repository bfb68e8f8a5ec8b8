"""From what a client submits to the jobs as their files will say: all checks before an id is spent.

Source: luxid.md 2.1-2.3, 5.4, 13; DESIGN section 11.
"""

from collections.abc import Mapping, Sequence
from typing import Any

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
    jobs: Sequence[ParsedJob],
    first_id: JobId,
    received: tuple[Timestamp, int],
    owner: JobOwner | None = None,
) -> tuple[Job, ...]:
    """The jobs with the ids from `first_id` on, dependencies absolute, opcodes in their normal form.

    Args:
        received: the time, as `[seconds, microseconds]` and in nanoseconds.
        owner: whose the jobs are; None: the daemons' user's.
    Raises: InvalidRequest: a dependency on an id that was never given, which is a typing error, or on the job
        itself. One on a job that is gone is none: the job is taken, and ends in error.
    """
    ids = [JobId(first_id + place) for place in range(len(jobs))]
    received_at, received_ns = received
    if owner is not None:
        jobs = [_owned(ops, owner_entry(owner, received_ns)) for ops in jobs]
    return tuple(
        Job(
            job_id=ids[place],
            ops=tuple(_build_op(op, index, place, ids, received_ns) for index, op in enumerate(ops)),
            received_at=received_at,
        )
        for place, ops in enumerate(jobs)
    )


def _owned(ops: ParsedJob, entry: ReasonEntry) -> ParsedJob:
    return (attrs.evolve(ops[0], reason=(*ops[0].reason, entry)), *ops[1:])


def _build_op(op: OpCode, index: int, place: int, ids: Sequence[JobId], received_ns: int) -> JobOp:
    entry = ReasonEntry(opcode_source(op.OP_ID), f"job={ids[place]};index={index}", received_ns)
    changes: dict[str, Any] = {"reason": (*op.reason, entry)}
    if op.depends:
        where = f"job {place + 1}, opcode {index + 1}: "
        changes["depends"] = tuple(_absolute(dependency, place, ids, where) for dependency in op.depends)
    return JobOp(input=write_opcode(attrs.evolve(op, **changes)), priority=op.priority, extra=_NOTHING)


_NOTHING: Mapping[str, Any] = {}


def _absolute(dependency: Dependency, place: int, ids: Sequence[JobId], where: str) -> Dependency:
    if dependency.job_id < 0:
        try:
            return resolve(dependency, place, ids)
        except InvalidRequest as error:
            raise InvalidRequest(f"{where}{error.message}") from error
    target = JobId(dependency.job_id)
    if not 0 < target < ids[0]:
        raise InvalidRequest(
            f"{where}dependency on job {target}, an id not given yet; "
            "jobs submitted together name each other by relative ids, e.g. -1"
        )
    return dependency

"""From a submission to the jobs as their files will say: all checks, before an id is spent.

Source: luxid.md 2.1-2.3, 5.4, 13; DESIGN section 11.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from common.errors import GantryError, InvalidRequest, PrerequisiteError
from common.ids import JobId
from common.jsontext import ascii_json
from common.lockdecl import LockDeclaration
from common.objects.config import Node
from common.objects.index import find_named
from common.opcodes.base import OpCode, write_opcode
from common.opcodes.command import OpRunCommand
from common.opcodes.registry import parse_opcode
from common.queue import reasons
from common.queue.jobs import Dependency, Job, JobOp, Timestamp, resolve
from common.queue.reasons import JobOwner, ReasonEntry, ReasonTrail, opcode_source, owner_entries
from common.queue.terms import SOURCE, Hold, check_terms, terms_entry

# How large a job may be: bounds within which no job is in the way of others.
#
# A job's file is written, and read again by luxid, at each step of each opcode; its locks are asked for in one
# call. So the size of one job is a delay of all others.
#
# Source: DESIGN section 6.


# least number of bytes of JSON that a lock takes, with its mode
_LOCK_BYTES = 8


@attrs.frozen
class JobBounds:
    """Bounds of one job."""

    opcodes: int
    # size of its opcodes as JSON
    size_bytes: int
    # number of locks that one opcode names
    locks: int
    # number of jobs that one opcode waits for
    depends: int

    def check_input(self, ops: Sequence[Mapping[str, object]]) -> int:
        """Look at a job before its opcodes are read; its size in bytes.

        Raises: InvalidRequest: it has too many opcodes, or is too large; says the number and the bound.
        """
        if len(ops) > self.opcodes:
            raise _beyond(f"the job has {len(ops)} opcodes", self.opcodes, "max_job_opcodes")
        size = len(ascii_json(ops))
        if size > self.size_bytes:
            raise _beyond(f"the job has {size} bytes", self.size_bytes, "max_job_bytes")
        return size

    def check_opcode(self, op: OpCode, size_bytes: int) -> None:
        """Look at an opcode of a job of so many bytes.

        Raises: InvalidRequest: it names too many locks or jobs; says the number and the bound.
        """
        if op.depends is not None and len(op.depends) > self.depends:
            raise _beyond(f"it depends on {len(op.depends)} jobs", self.depends, "max_opcode_depends")
        if size_bytes > self.locks * _LOCK_BYTES and (count := _count_names(op.lock_declaration())) > self.locks:
            raise _beyond(
                f"it names {count} locks", self.locks, "max_locks", ", or lock the whole level: 'node/[lockset]'"
            )


def _count_names(declaration: LockDeclaration) -> int:
    return sum(len(entry.names) for entries in declaration.levels.values() for entry in entries)


def _beyond(what: str, bound: int, key: str, other: str = "") -> InvalidRequest:
    return InvalidRequest(f"{what}, of at most {bound}; split it{other}, or raise '{key}' in '[limits]'", limit=bound)


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
            job = yield from _build_job(ops, next_id, ids, first_id, received, owner, is_alone=len(jobs) == 1)
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
    *,
    is_alone: bool,
) -> Generator[int, None, Job | GantryError]:
    """Args:
    before: the ids of the jobs before it in the submission, `_REFUSED` for one that is refused.
    is_alone: whether it is the submission's only job, so that errors need not name it.
    """
    received_at, received_ns = received
    if owner is not None:
        ops = _owned(ops, owner_entries(owner, received_ns))
    built = []
    for index, op in enumerate(ops):
        try:
            built.append(_build_op(op, index, job_id, before, first_id, received_ns))
        except InvalidRequest as error:
            named = [] if is_alone else [f"job {len(before) + 1}"]
            if not is_alone or len(ops) > 1:
                named.append(f"opcode {index + 1}")
            return _at(error, f"{', '.join(named)}: " if named else "")
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
        depends = tuple(_absolute(dependency, before, first_id) for dependency in depends)
    given = attrs.evolve(op, reason=reason, depends=depends)
    return JobOp(input=write_opcode(given), priority=op.priority, extra=_NOTHING)


_NOTHING: Mapping[str, object] = {}


def _absolute(dependency: Dependency, before: Sequence[JobId], first_id: JobId) -> Dependency:
    if dependency.job_id < 0:
        found = resolve(dependency, len(before), before)
        if found.job_id == _REFUSED:
            named = len(before) + dependency.job_id + 1
            raise InvalidRequest(f"dependency on job {named} of this submission, which was refused")
        return found
    target = JobId(dependency.job_id)
    if not 0 < target < first_id:
        raise InvalidRequest(f"there is no job {target} to depend on")
    return dependency


# The terms of new jobs: what clients may state of a job as a whole, and what luxid adds.
#
# A client writes the entry; what it says of the clock and of users is not believed: a hold is put by the submitter,
# now. The entry that names its batch must be readable, since a limit that nobody can read would limit nothing.
#
# Source: DESIGN section 16; `common.queue.terms`.


def with_checked_terms(ops: ParsedJob, by: str, now_ns: int) -> ParsedJob:
    """The job as it may be taken.

    Args:
        by: name of the submitter.
        now_ns: nanoseconds since the epoch.
    Raises: InvalidRequest: a term breaks a rule, there are several entries, or one is not in the first opcode's trail;
        or its batch cannot be read.
    """
    _check_batch(ops)
    stated = [(number, entry) for number, op in enumerate(ops, 1) for entry in op.reason if entry.source == SOURCE]
    if not stated:
        return ops
    if (number := stated[-1][0]) > 1:
        raise InvalidRequest(
            f"opcode {number} states terms; those of a job stand in the reason trail of its first opcode"
        )
    if len(stated) > 1:
        raise InvalidRequest(f"the job states its terms {len(stated)} times; state them once, in one entry")
    taken = _as_taken(stated[0][1], by, now_ns)
    first = attrs.evolve(ops[0], reason=tuple(taken if entry.source == SOURCE else entry for entry in ops[0].reason))
    return (first, *ops[1:])


def _as_taken(entry: ReasonEntry, by: str, now_ns: int) -> ReasonEntry:
    """The entry as luxid writes it: others look for its words in the text, and JSON has many ways to write one."""
    wanted = check_terms(entry.reason)
    hold = None if wanted.hold is None else Hold(by, now_ns / 1e9, wanted.hold.why)
    # a later instant would tell that the terms were changed after the job came
    return terms_entry(attrs.evolve(wanted, hold=hold), min(entry.at_ns, now_ns))


def _check_batch(ops: ParsedJob) -> None:
    """Raises: InvalidRequest: the entry that names the job's batch cannot be read; others do not count."""
    entry = next((entry for entry in ops[0].reason if entry.source == reasons.BATCH_SOURCE), None) if ops else None
    if entry is not None:
        reasons.check_batch(entry.reason)


# The nodes that commands name, checked when a job is submitted: whoever mistypes a name hears of it at once.
#
# A job may wait for hours before its turn. So a name that the configuration does not know refuses the job. Whether the
# node can run a command, e.g. is not offline, is found out when the job runs.
#
# Source: DESIGN section 13.


def names_nodes(ops: Iterable[OpCode]) -> bool:
    """Whether one of these opcodes runs a command on a node."""
    return any(isinstance(op, OpRunCommand) and op.node is not None for op in ops)


def unknown_node(ops: Iterable[OpCode], nodes: Sequence[Node]) -> InvalidRequest | None:
    """Why these opcodes are refused: one names no node, or a short form of several; None: all are known.

    Names are found as job processes find them.
    """
    for number, op in enumerate(ops, 1):
        name = op.node if isinstance(op, OpRunCommand) else None
        if name is None or any(name in (node.name, node.uuid) for node in nodes):
            continue
        try:
            find_named(nodes, [name], "node", is_host=True)
        except PrerequisiteError as error:
            return InvalidRequest(f"opcode {number}: {error.message}{_similar(name, nodes)}")
    return None


def _similar(name: str, nodes: Sequence[Node]) -> str:
    # imported late: only a wrong name needs it
    from difflib import get_close_matches

    full = {short: node.name for node in nodes if node.name for short in (node.name.partition(".")[0], node.name)}
    found = dict.fromkeys(full[each] for each in get_close_matches(name, full))
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else "; 'gnt-node list' shows all"

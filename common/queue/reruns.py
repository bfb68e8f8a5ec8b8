"""Jobs that run again: new jobs with the same opcodes.

Theory. The old jobs stay as they are. A new one has its old one's opcodes, name, labels, resources and limits, and the
label `rerun-of`; its reasons are new, and it neither waits for the old instant nor is on hold. What several depended on
among each other holds again: a dependency on a job that runs again becomes one on its successor, one that is met is
left out, and one that can still be met stays. One that never will be is refused, and so is a job whose secrets no file
has. A job may run again with those that depend on it, on these, and so on: they were given up, or worked with what it
made. It may also run again from its failed opcode on; what its opcodes before that did then counts as done.

Source: DESIGN section 16; everyday.md j, "rerun".
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs

from common.errors import Conflict, Denied, GantryError, InvalidRequest, OpcodeUnknown
from common.opcodes.base import REDACTED, write_opcode
from common.opcodes.registry import parse_opcode
from common.queue.jobs import ARGV, FINAL_NAMES, PUBLIC_KEYS, Dependency, DependencyVerdict, JobState, judge
from common.queue.reasons import (
    USER_SOURCE,
    Batch,
    ReasonEntry,
    batch_entry,
    batch_of_trail,
    rate_bucket,
    tries_of_trail,
)
from common.queue.terms import JobTerms, checked, terms_entry, terms_of_trail
from common.words.filters.filtertext import Expression

LABEL: Final = "rerun-of"
# luxid's field with the jobs that a job depends on
DEPENDS_FIELD: Final = "dependencies"
# number of jobs that may run again because they depend on chosen ones
MOST_DEPENDENTS: Final = 1000
# number of opcodes of a job that is still told without defaults: each costs some tens of readings
_MOST_SHORTENED: Final = 50
_SUCCESS: Final = "success"
_ERROR: Final = "error"
# keys of an opcode of which others see a part
_SEEN_BY_ALL: Final = frozenset((*PUBLIC_KEYS, ARGV))


@attrs.frozen
class OldJob:
    """A job as luxid tells it."""

    job_id: int
    status: str
    # input of each opcode
    ops: Sequence[Mapping[str, object]]
    # for each opcode whether it was executed
    executed: Sequence[bool]
    # state of each opcode; empty: only whole jobs run again
    op_states: Sequence[str] = ()

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_NAMES

    @property
    def is_success(self) -> bool:
        return self.status == _SUCCESS

    @property
    def failed_index(self) -> int | None:
        """The first opcode that failed; None: none has. Those behind it have failed with it, without having begun."""
        return next((index for index, state in enumerate(self.op_states) if state == _ERROR), None)


@attrs.frozen
class Successor:
    """A job to submit."""

    of: int
    ops: Sequence[Mapping[str, object]]
    # number of opcodes of the old job that are not repeated
    left_out: int = 0


# ids after the last one that runs again within which archived jobs are looked at that may depend on them
REACH: Final = 10_000


def dependents_filters(job_ids: Sequence[int]) -> tuple[tuple[tuple[str, ...], Expression], ...]:
    """The queries that find all jobs which may depend on these: fields of luxid, and a filter for each.

    Jobs of the queue are all looked at; of the archive those with greater ids, as others can have come to depend on
    one of these only by a later change of theirs, up to `REACH` ids after the last one: each is a file to be read.
    """
    fields = ("id", DEPENDS_FIELD)
    some: Expression = [">", DEPENDS_FIELD, 0]
    near: Expression = ["&", [">", "id", min(job_ids)], ["<=", "id", max(job_ids) + REACH]]
    return (fields, some), ((*fields, "archived"), ["&", near, some])


def with_dependents(job_ids: Iterable[int], depends: Mapping[int, Iterable[int]]) -> list[int]:
    """These jobs and those that depend on them, directly or through others, by id.

    Args: depends: a job -> those that its opcodes depend on.
    Raises: Conflict: more than MOST_DEPENDENTS would be added.
    Cost: linear in the dependencies.
    """
    waiting: dict[int, list[int]] = {}
    for job_id, targets in depends.items():
        for target in targets:
            waiting.setdefault(target, []).append(job_id)
    given = set(job_ids)
    found, ahead = set(given), deque(given)
    while ahead:
        for job_id in waiting.get(ahead.popleft(), ()):
            if job_id not in found:
                found.add(job_id)
                ahead.append(job_id)
        if len(found) - len(given) > MOST_DEPENDENTS:
            raise Conflict(
                f"more than {MOST_DEPENDENTS:,} jobs depend on the chosen ones, and no more run again with them; "
                "choose jobs further down, or name them all"
            )
    return sorted(found)


def chosen(jobs: Sequence[OldJob], *, failed_only: bool) -> list[OldJob]:
    """The jobs that run again, by id, but each behind those it depends on: all, or those that ended without success.

    Raises: Conflict: one has not ended, and all were wanted; or they wait for each other in a ring.
    """
    ordered = _ordered(jobs)
    if failed_only:
        return [job for job in ordered if job.is_final and not job.is_success]
    for job in ordered:
        if not job.is_final:
            raise Conflict(
                f"job {job.job_id} is {job.status}, and only jobs that have ended run again; wait for its end, "
                "or cancel it first"
            )
    return ordered


def _ordered(jobs: Sequence[OldJob]) -> list[OldJob]:
    """By id, but each behind those it depends on: a change of a waiting job lets it depend on a later one, too.

    Raises: Conflict: they wait for each other in a ring.
    """
    by_id = {job.job_id: job for job in jobs}
    targets = {
        job.job_id: {each.job_id for op in job.ops for each in _depends(op)} & by_id.keys() - {job.job_id}
        for job in jobs
    }
    waiting: dict[int, list[int]] = {}
    for job_id, found in targets.items():
        for target in found:
            waiting.setdefault(target, []).append(job_id)
    ready = [job_id for job_id, found in targets.items() if not found]
    heapq.heapify(ready)
    ordered: list[OldJob] = []
    while ready:
        job_id = heapq.heappop(ready)
        ordered.append(by_id[job_id])
        for behind in waiting.get(job_id, ()):
            targets[behind].remove(job_id)
            if not targets[behind]:
                heapq.heappush(ready, behind)
    if len(ordered) < len(by_id):
        held = ", ".join(map(str, sorted(by_id.keys() - {job.job_id for job in ordered})[:5]))
        raise Conflict(f"jobs wait for each other in a ring, {held} among them; run them again in parts")
    return ordered


def outside(jobs: Sequence[OldJob]) -> list[int]:
    """The ids of other jobs on which these depend."""
    own = {job.job_id for job in jobs}
    named = {dependency.job_id for job in jobs for op in job.ops for dependency in _depends(op)}
    return sorted(named - own)


def successors(
    jobs: Sequence[OldJob],
    states: Mapping[int, str],
    batch_ids: Mapping[str, str],
    at_ns: int,
    *,
    from_failed: bool = False,
) -> list[Successor]:
    """The jobs to submit together, in this order; their own entries of the submitter are to be added.

    Args:
        jobs: as `chosen` returns them.
        states: the state of each job of `outside` that there is.
        batch_ids: for each id of a batch that of the batch to make.
        at_ns: nanoseconds since the epoch.
        from_failed: whether each job begins with its failed opcode.
    Raises: Conflict, InvalidRequest, Denied: a job cannot run again; the message says what to do.
    """
    places = {job.job_id: place for place, job in enumerate(jobs)}
    batches = _batches(jobs, batch_ids)
    firsts = [_first(job) if from_failed else 0 for job in jobs]
    return [
        Successor(job.job_id, _ops(job, first, place, places, states, batches.get(job.job_id), at_ns), first)
        for (place, job), first in zip(enumerate(jobs), firsts, strict=True)
    ]


def _first(job: OldJob) -> int:
    """The opcode with which the job begins again. Raises: Conflict: none failed."""
    index = job.failed_index
    if index is None:
        raise Conflict(
            f"no opcode of job {job.job_id} failed, it ended as {job.status}; run it again from its beginning"
        )
    return index


def to_edit(job: OldJob, *, keeps_reasons: bool = False) -> tuple[JobTerms, list[dict[str, object]]]:
    """The terms and the opcodes of a job that somebody changes before it runs again.

    As for `successors`, but it depends on no job, and parameters that have their default are left out.

    Args: keeps_reasons: whether all reasons of its user stay, not only those that name a rate limit.
    Raises: InvalidRequest, Denied: as `successors`.
    """
    ops: list[dict[str, object]] = []
    for op in job.ops:
        _check_whole(job, op)
        reasons = [entry for entry in _trail(op) if entry.source == USER_SOURCE] if keeps_reasons else _limits(op)
        limits = [entry.to_wire() for entry in reasons]
        kept = {key: value for key, value in op.items() if key not in ("depend", "depends", "reason")}
        plain = _without_defaults(kept) if len(job.ops) <= _MOST_SHORTENED else kept
        ops.append({**plain, **({"reason": limits} if limits else {})})
    terms = terms_of_trail(job.ops[0].get("reason")) if job.ops else JobTerms()
    return attrs.evolve(terms, labels={**terms.labels, LABEL: str(job.job_id)}, begin_at=None, hold=None), ops


def _without_defaults(op: Mapping[str, object]) -> dict[str, object]:
    meant = write_opcode(parse_opcode(op))
    kept = dict(op)
    for key in op:
        fewer = {name: value for name, value in kept.items() if name != key}
        with suppress(GantryError):
            if write_opcode(parse_opcode(fewer)) == meant:
                kept = fewer
    return kept


def batches_of(jobs: Sequence[OldJob]) -> list[str]:
    """The batches of which several of these jobs are."""
    found = [batch.batch_id for job in jobs if (batch := _batch(job)) is not None]
    return [batch_id for batch_id in dict.fromkeys(found) if found.count(batch_id) > 1]


def _batches(jobs: Sequence[OldJob], batch_ids: Mapping[str, str]) -> dict[int, Batch]:
    members: dict[str, list[tuple[int, Batch]]] = {}
    for job in jobs:
        if (batch := _batch(job)) is not None and batch.batch_id in batch_ids:
            members.setdefault(batch.batch_id, []).append((job.job_id, batch))
    return {
        job_id: attrs.evolve(batch, batch_id=batch_ids[old], place=place, size=len(group))
        for old, group in members.items()
        for place, (job_id, batch) in enumerate(group, 1)
    }


def _batch(job: OldJob) -> Batch | None:
    return batch_of_trail(job.ops[0].get("reason")) if job.ops else None


def _ops(
    job: OldJob,
    first: int,
    place: int,
    places: Mapping[int, int],
    states: Mapping[int, str],
    batch: Batch | None,
    at_ns: int,
) -> list[Mapping[str, object]]:
    made: list[Mapping[str, object]] = []
    for index, op in enumerate(job.ops[first:], first):
        _check_whole(job, op)
        found = [_dependency(job, index, each, place, places, states) for each in _depends(op)]
        depends = [each.to_wire() for each in found if each is not None]
        trail = [*_limits(op), *(_first_entries(job, batch, at_ns) if index == first else ())]
        # under either name these are the old jobs
        changed = {**op, "depend": None, "depends": depends or None, "reason": [entry.to_wire() for entry in trail]}
        made.append({key: value for key, value in changed.items() if value is not None})
    return made


def _check_whole(job: OldJob, op: Mapping[str, object]) -> None:
    """Raises: InvalidRequest, Denied: the opcode is not known as it was submitted."""
    # the normal form of job files has all parameters with a default, but for those that came with a later release
    is_cut = op.keys() <= _SEEN_BY_ALL
    try:
        parsed = parse_opcode(op)
    except GantryError as error:
        if is_cut and not isinstance(error, OpcodeUnknown):
            raise _of_another(job) from error
        raise InvalidRequest(f"job {job.job_id} cannot run again: {error.message}") from error
    if is_cut and write_opcode(parsed).keys() - op.keys():
        raise _of_another(job)
    hidden = [name for name, value in (parsed.secret_parameters() or {}).items() if value == REDACTED]
    if hidden:
        raise InvalidRequest(
            f"job {job.job_id} had secret parameters ({', '.join(hidden)}), which no file keeps; "
            "submit it anew, with them"
        )


def _of_another(job: OldJob) -> Denied:
    return Denied(
        f"job {job.job_id} is another user's, and what it runs is told only to its submitter and to operators; "
        "only they can let it run again"
    )


def _dependency(
    job: OldJob,
    index: int,
    dependency: Dependency,
    place: int,
    places: Mapping[int, int],
    states: Mapping[int, str],
) -> Dependency | None:
    """The dependency of the new opcode; None: it is met. Raises: Conflict: it never will be."""
    target = dependency.job_id
    if target in places:
        return attrs.evolve(dependency, job_id=places[target] - place)
    state = states.get(target)
    verdict = None if state is None else judge(dependency, JobState(state))
    if verdict is DependencyVerdict.WAIT:
        return dependency
    has_begun = job.executed[index] or tries_of_trail(job.ops[index].get("reason"))
    if has_begun or verdict is DependencyVerdict.MET:
        return None
    how = "no longer exists" if state is None else f"ended as {state}"
    raise Conflict(
        f"job {job.job_id} depends on job {target}, which {how}; run both again, or submit it without the dependency"
    )


def _depends(op: Mapping[str, object]) -> list[Dependency]:
    given = op.get("depends") or op.get("depend") or ()
    return [Dependency.from_wire(each) for each in given] if isinstance(given, list | tuple) else []


def _limits(op: Mapping[str, object]) -> list[ReasonEntry]:
    """The reasons that limit how many such jobs run at once: they are no reasons of the old run alone."""
    return [entry for entry in _trail(op) if entry.source == USER_SOURCE and rate_bucket(entry.reason) is not None]


def _trail(op: Mapping[str, object]) -> list[ReasonEntry]:
    trail = op.get("reason")
    return [ReasonEntry.from_wire(entry) for entry in trail] if isinstance(trail, list | tuple) else []


def _first_entries(job: OldJob, batch: Batch | None, at_ns: int) -> list[ReasonEntry]:
    """Raises: InvalidRequest: the job has as many labels as a job can have."""
    terms = terms_of_trail(job.ops[0].get("reason"))
    labels = {**terms.labels, LABEL: str(job.job_id)}
    entry = terms_entry(checked(attrs.evolve(terms, labels=labels, begin_at=None, hold=None, trace="")), at_ns)
    return [entry, *([batch_entry(batch, at_ns)] if batch is not None else [])]

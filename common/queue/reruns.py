"""Jobs that run again: new jobs with the same opcodes.

Theory. The old jobs stay as they are. A new one has its old one's opcodes, name, labels, resources and limits, and the
label `rerun-of`; its reasons are new, and it neither waits for the old instant nor is on hold. What several depended on
among each other holds again: a dependency on a job that runs again becomes one on its successor, one that is met is
left out, and one that can still be met stays. One that never will be is refused, and so is a job whose secrets no file
has.

Source: DESIGN section 16; everyday.md j, "rerun".
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.errors import Conflict, Denied, GantryError, InvalidRequest, OpcodeUnknown
from common.opcodes.base import REDACTED, write_opcode
from common.opcodes.registry import parse_opcode
from common.queue.jobs import ARGV, FINAL_NAMES, PUBLIC_KEYS, Dependency, DependencyVerdict, JobState, judge
from common.queue.reasons import Batch, ReasonEntry, batch_entry, batch_of_trail, rate_bucket, tries_of_trail
from common.queue.terms import checked, terms_entry, terms_of_trail

LABEL: Final = "rerun-of"
_USER: Final = "gnt:user"
_SUCCESS: Final = "success"
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

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_NAMES

    @property
    def is_success(self) -> bool:
        return self.status == _SUCCESS


@attrs.frozen
class Successor:
    """A job to submit."""

    of: int
    ops: Sequence[Mapping[str, object]]


def chosen(jobs: Sequence[OldJob], *, failed_only: bool) -> list[OldJob]:
    """The jobs that run again, by id: all, or those that have ended without success.

    Raises: Conflict: one has not ended, and all were wanted.
    """
    ordered = sorted(jobs, key=lambda job: job.job_id)
    if failed_only:
        return [job for job in ordered if job.is_final and not job.is_success]
    for job in ordered:
        if not job.is_final:
            raise Conflict(
                f"job {job.job_id} is {job.status}, and only jobs that have ended run again; wait for its end, "
                "or cancel it first"
            )
    return ordered


def outside(jobs: Sequence[OldJob]) -> list[int]:
    """The ids of other jobs on which these depend."""
    own = {job.job_id for job in jobs}
    named = {dependency.job_id for job in jobs for op in job.ops for dependency in _depends(op)}
    return sorted(named - own)


def successors(
    jobs: Sequence[OldJob], states: Mapping[int, str], batch_ids: Mapping[str, str], at_ns: int
) -> list[Successor]:
    """The jobs to submit together, in this order; their own entries of the submitter are to be added.

    Args:
        jobs: as `chosen` returns them.
        states: the state of each job of `outside` that there is.
        batch_ids: for each id of a batch that of the batch to make.
        at_ns: nanoseconds since the epoch.
    Raises: Conflict, InvalidRequest, Denied: a job cannot run again; the message says what to do.
    """
    places = {job.job_id: place for place, job in enumerate(jobs)}
    batches = _batches(jobs, batch_ids)
    return [
        Successor(job.job_id, _ops(job, place, places, states, batches.get(job.job_id), at_ns))
        for place, job in enumerate(jobs)
    ]


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
    job: OldJob, place: int, places: Mapping[int, int], states: Mapping[int, str], batch: Batch | None, at_ns: int
) -> list[Mapping[str, object]]:
    made: list[Mapping[str, object]] = []
    for index, op in enumerate(job.ops):
        _check_whole(job, op)
        found = [_dependency(job, index, each, place, places, states) for each in _depends(op)]
        depends = [each.to_wire() for each in found if each is not None]
        trail = [*_limits(op), *(_first_entries(job, batch, at_ns) if index == 0 else ())]
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
    trail = op.get("reason")
    entries = [ReasonEntry.from_wire(entry) for entry in trail] if isinstance(trail, list | tuple) else []
    return [entry for entry in entries if entry.source == _USER and rate_bucket(entry.reason) is not None]


def _first_entries(job: OldJob, batch: Batch | None, at_ns: int) -> list[ReasonEntry]:
    """Raises: InvalidRequest: the job has as many labels as a job can have."""
    terms = terms_of_trail(job.ops[0].get("reason"))
    labels = {**terms.labels, LABEL: str(job.job_id)}
    entry = terms_entry(checked(attrs.evolve(terms, labels=labels, begin_at=None, hold=None)), at_ns)
    return [entry, *([batch_entry(batch, at_ns)] if batch is not None else [])]

"""Changes of queued jobs that a user asks for: terms, priority, what the job waits for, the command's time and tries.

A change that is asked for twice changes nothing the second time. A hold that an operator put on somebody's job is
lifted by operators only. A job can be told to wait only for jobs that came before it, so that no ring can close.

Source: DESIGN section 16; `protocol.luxi.jobs.TermsChange`.
"""

import math
from typing import Final

import attrs

from common.commands.retryrules import MOST_RETRIES
from common.errors import Denied, InvalidRequest
from common.opcodes.base import write_opcode
from common.opcodes.command import OpRunCommand
from common.opcodes.registry import parse_opcode
from common.queue.jobs import FINAL, SUBMIT_PRIORITIES, Dependency, Job, replace_op, set_priority
from common.queue.reasons import MOST_JOBS, submitter, with_at_most
from common.queue.terms import (
    NO_TERMS,
    Hold,
    JobTerms,
    Use,
    check_hold_words,
    check_label,
    check_name,
    checked,
    read_use,
    terms_of,
    with_terms,
)
from protocol.luxi.jobs import TermsChange

_UNCHANGED: Final = TermsChange()


@attrs.frozen
class Changer:
    """Who asks for a change."""

    # "": not known
    name: str
    is_operator: bool


def check_change(change: TermsChange) -> None:
    """Raises: InvalidRequest: no job can be changed so; says what and the rule."""
    if change == _UNCHANGED:
        raise InvalidRequest("nothing to change is given; name, labels, begin, hold, priority or others")
    if change.hold is not None and change.release:
        raise InvalidRequest("a job is either held or released, not both")
    if change.name is not None:
        check_name(change.name)
    if change.hold is not None:
        check_hold_words(change.hold)
    for key, value in change.labels.items():
        check_label(key, value)
    if both := sorted(change.labels.keys() & set(change.without_labels)):
        raise InvalidRequest(f"label '{both[0]}' is to be set and removed")
    checked(JobTerms(begin_at=change.begin_at, uses=_uses(NO_TERMS, change)))
    if both := sorted(change.uses.keys() & set(change.without_uses)):
        raise InvalidRequest(f"units of '{both[0]}' are to be taken and not to be taken")
    _check_command(change)
    if change.at_most is not None and not 0 <= change.at_most <= MOST_JOBS:
        raise InvalidRequest(f"at_most must be from 0 (any number) to {MOST_JOBS}, got {change.at_most}")
    if wrong := next((each for each in change.after if each.job_id < 1 or not FINAL.issuperset(each.states)), None):
        raise InvalidRequest(f"a job waits for a job by its id, to end as canceled, error or success; got {wrong}")
    if both_ids := sorted({each.job_id for each in change.after} & set(change.without_after)):
        raise InvalidRequest(f"job {both_ids[0]} is to be waited for and not to be waited for")
    if change.priority is not None and change.priority not in SUBMIT_PRIORITIES.values():
        raise InvalidRequest(f"priority must be -10 (high), 0 (normal) or 10 (low), got {change.priority}")


def is_for_running(change: TermsChange) -> bool:
    """Whether the change can be made while the job has a process: it is of nothing but its priority."""
    return attrs.evolve(change, priority=None) == _UNCHANGED


def changed_job(job: Job, change: TermsChange, by: Changer, now_ns: int) -> Job:
    """A job without a process as it is after the change; the very same one if nothing changes.

    Raises:
        InvalidRequest: it would have too many labels or uses, or is no single command, or in no batch, or came before
            a job that it is to wait for.
        Denied: somebody else's hold.
    """
    before = terms_of(job)
    after = checked(
        attrs.evolve(
            before,
            name=before.name if change.name is None else change.name,
            labels=_labels(before, change),
            begin_at=before.begin_at if change.begin_at is None else change.begin_at or None,
            hold=_hold(job, before.hold, change, by, now_ns / 1e9),
            uses=_uses(before, change),
        )
    )
    if after != before:
        job = with_terms(job, after, now_ns)
    if change.timeout is not None or change.retries is not None:
        job = _with_command(job, change)
    if change.at_most is not None:
        job = with_at_most(job, change.at_most or None)
    if change.after or change.without_after:
        job = _with_dependencies(job, change)
    if change.priority is None or job.next_index is None or set_priority(job, change.priority) == job:
        return job
    return set_priority(job, change.priority)


def change_words(before: Job, after: Job, change: TermsChange) -> str:
    """What has become of the job, in a sentence. Args: after: the very same job if nothing was changed."""
    what = f"job {after.job_id}"
    is_changed = after is not before
    hold = terms_of(before).hold
    # a job that was held already, or not at all, may have changed in something else
    also = f"{what} was changed; it" if is_changed else what
    if change.release:
        return f"{also} was not held" if hold is None else f"{what} is released"
    if change.hold is not None:
        return f"{what} is held" if hold is None else f"{also} is held already{f' by {hold.by}' if hold.by else ''}"
    if is_for_running(change):
        return f"{what} has priority {change.priority}"
    return f"{what} was changed" if is_changed else f"{what} was so already"


def _labels(before: JobTerms, change: TermsChange) -> dict[str, str]:
    kept = {key: value for key, value in before.labels.items() if key not in change.without_labels}
    return {**kept, **change.labels}


def _hold(job: Job, before: Hold | None, change: TermsChange, by: Changer, now_s: float) -> Hold | None:
    if change.hold is not None and before is None:
        return Hold(by.name, now_s, change.hold)
    if not change.release or before is None:
        return before
    if not (by.is_operator or before.by in ("", by.name, submitter(job))):
        raise Denied(f"job {job.job_id} is held by {before.by!r}; only an operator releases it")
    return None


def _uses(before: JobTerms, change: TermsChange) -> tuple[Use, ...]:
    kept = {use.key: use for use in before.uses if use.key not in change.without_uses}
    return tuple({**kept, **{key: read_use(key, count) for key, count in change.uses.items()}}.values())


def _check_command(change: TermsChange) -> None:
    if change.timeout is not None and not 0 <= change.timeout < math.inf:
        raise InvalidRequest(f"timeout must be seconds, or 0 for none, got {change.timeout!r}")
    if change.retries is not None and not 0 <= change.retries <= MOST_RETRIES:
        raise InvalidRequest(f"retries must be from 0 to {MOST_RETRIES}, got {change.retries}")


def _with_command(job: Job, change: TermsChange) -> Job:
    """The job with another time-out, or number of tries, of its command."""
    left = [index for index, op in enumerate(job.ops) if not op.state.is_final]
    op_ids = [job.ops[index].op_id for index in left]
    if op_ids != [OpRunCommand.OP_ID]:
        raise InvalidRequest(f"job {job.job_id} is not a single command, whose time-out or tries might be changed")
    op = job.ops[left[0]]
    command = parse_opcode(dict(op.input))
    assert isinstance(command, OpRunCommand)
    timeout = command.timeout if change.timeout is None else change.timeout or None
    retries = command.retries if change.retries is None else change.retries
    if (timeout, retries) == (command.timeout, command.retries):
        return job
    written = write_opcode(attrs.evolve(command, timeout=timeout, retries=retries))
    kept: dict[str, object] = {name: value for name, value in op.input.items() if name not in ("timeout", "retries")}
    changed: dict[str, object] = {name: written[name] for name in ("timeout", "retries") if name in written}
    return replace_op(job, left[0], attrs.evolve(op, input={**kept, **changed}))


def _with_dependencies(job: Job, change: TermsChange) -> Job:
    """The job with other jobs that its next opcode waits for; other ways to wait for the same job are replaced."""
    if late := next((each.job_id for each in change.after if each.job_id >= job.job_id), None):
        raise InvalidRequest(
            f"job {job.job_id} cannot wait for job {late}: a job waits only for jobs that came before it, so "
            "that no two wait for each other"
        )
    index = job.next_index
    if index is None:
        return job
    op = job.ops[index]
    # as the form on the wire has it, also where it is not ours
    before = [list(each) for each in op.input.get("depends") or ()]
    named = {*change.without_after, *(each.job_id for each in change.after)}
    kept = [each for each in before if each[0] not in named]
    after = [*kept, *(Dependency(each.job_id, each.states).to_wire() for each in change.after)]
    if sorted(map(repr, after)) == sorted(map(repr, before)):
        return job
    return replace_op(job, index, attrs.evolve(op, input={**op.input, "depends": after or None}))

"""The words of the queue's stories: an opcode, a rule, a reason; see `queuestory`."""

from collections.abc import Iterator
from typing import Any

import attrs

from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.explanation import (
    BatchFull,
    BeginsLater,
    BeingWritten,
    Faded,
    HeldByRule,
    InLine,
    LevelWeight,
    LimitFull,
    NoFreeSlot,
    OnHold,
    Reason,
    SlotsReserved,
    TriesAgain,
    UserAtBound,
    WaitsForJob,
)
from common.queue.jobs import Job, JobState, OpEvent, apply_event, replace_op
from common.queue.reasons import Try, tries_of, try_entry
from tests.support.filterrules import filter_rule


def reason_text(reason: Reason) -> str:
    """One line of `why`."""
    match reason:
        case WaitsForJob():
            states = sorted(state.value for state in reason.wanted)
            return f"waits for {reason.job_id}: {', '.join(states) or 'success, error'}"
        case HeldByRule():
            return f"rule {reason.uuid}: {reason.action.to_wire()}"
        case LimitFull():
            return f"limit {reason.name}: full with {listed(reason.members)}"
        case BatchFull():
            return f"batch {reason.batch}: full with {listed(reason.members)}"
        case NoFreeSlot():
            return f"slots: {reason.used} of {reason.slots}"
        case SlotsReserved():
            return f"reserved slots: {reason.used} of {reason.limit}"
        case UserAtBound():
            return f"user: {reason.running_count} of {reason.limit}"
        case InLine():
            return " after ".join(filter(None, [f"order: {reason.position}", listed(reason.ahead)]))
        case Faded():
            return f"weight: {reason.static:g}, aged {reason.aged:g}"
        case LevelWeight():
            return f"    {reason.level}: {reason.weight:g} beside {listed(reason.job_ids) or 'nobody'}"
        case OnHold():
            return f"held by {reason.by}"
        case BeginsLater():
            return f"begins at {reason.at:.0f}"
        case TriesAgain():
            return f"try {reason.number} at {reason.at:.0f}: {reason.why}"
        case BeingWritten():
            return f"for a moment: {reason.phase}"
        case _:
            raise AssertionError(reason)


def listed(job_ids: Any) -> str:
    return " ".join(map(str, job_ids))


def pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, _, value = word.partition("=")
        yield name, value


def opcode(words: list[str]) -> dict[str, Any]:
    said = dict(pairs(words))
    op: dict[str, Any] = {"OP_ID": "OP_TEST_DELAY", "duration": 1}
    if locks := {name: mode for name, mode in said.items() if "/" in name}:
        op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": locks}
    if op_ids := [word for word in words if word.startswith("OP_")]:
        op = {"OP_ID": op_ids[0]}
    if "instance" in said:
        op["instance_name"] = said["instance"]
    if "after" in said:
        after, _, states = said["after"].partition(":")
        op["depends"] = [[int(after), states.split(",") if states else []]]
    return op | {"reason": [["user", said["reason"], 1]] if "reason" in said else []}


def rule(words: list[str]) -> FilterRule:
    name, priority, action, *tested = words
    said = dict(pairs(tested))
    predicates = []
    if "opcode" in said:
        predicates.append(["opcode", ["==", "OP_ID", said["opcode"]]])
    if "reason" in said:
        predicates.append(["reason", ["=~", "reason", said["reason"]]])
    if "newer" in said:
        predicates.append(["jobid", [">", "id", "watermark"]])
    kind, _, count = action.partition(":")
    return filter_rule(
        watermark=JobId(int(said.get("newer", "0"))),
        priority=int(priority),
        predicates=tuple(predicates),
        action=[kind, int(count)] if count else kind,
        reason_trail=(),
        uuid=name,
    )


def begun(job: Job) -> Job:
    index = job.next_index
    assert index is not None
    return replace_op(job, index, apply_event(job.ops[index], OpEvent.LOCKED, (0, 0)))


def succeeded(job: Job) -> Job:
    index = job.next_index
    assert index is not None
    return replace_op(job, index, apply_event(job.ops[index], OpEvent.SUCCEEDED, (0, 0)))


def tried(job: Job, now_s: int, next_s: int) -> Job:
    """The job with the opcode under way queued again after a failure."""
    index = job.next_index
    assert index is not None
    op = job.ops[index]
    entry = try_entry(Try(len(tries_of(op)) + 1, now_s, now_s, "ended with exit code 75", 75, next_s, 0))
    trail = [*(op.input.get("reason") or ()), entry.to_wire()]
    again = attrs.evolve(op, input={**op.input, "reason": trail}, state=JobState.QUEUED, start_at=None, exec_at=None)
    return replace_op(job, index, again)

"""What the common options of a submission say, written into the opcodes.

Source: cli.md 1.2; DESIGN section 16.
"""

import time
from collections.abc import Sequence

import attrs

from cli.user import user_name
from common.queue.jobs import SUBMIT_PRIORITIES
from common.queue.reasons import user_trail
from common.queue.submitter import submitter_entry
from common.queue.terms import NO_TERMS, SOURCE, Hold, JobTerms, Use, check_terms, checked, terms_entry, terms_text
from protocol.luxi.submission import OpInput


@attrs.frozen
class Wishes:
    """The common options of a submission."""

    # priority by name; None: the opcode's own
    priority: str | None
    reason: str | None
    # whether to follow the jobs to their end
    is_waiting: bool
    # whether to print the ids on standard error in Ganeti's form (`--submit`)
    is_ganeti_form: bool
    # whether to print the bare ids first on standard output
    prints_ids: bool
    # whether the opcodes only check, and change nothing: their own parameter, as Ganeti's clients set it
    is_dry: bool = False
    # whether to submit nothing, and to say what would be submitted
    is_preview: bool = False
    # name of the jobs; None: as the submission itself has it
    job_name: str | None = None
    # labels of the jobs, added to those that the submission itself has
    job_labels: Sequence[tuple[str, str]] = ()
    # key of the submission, chosen by the user; None: none
    key: str | None = None
    # instant before which the jobs do not begin; None: as the submission itself has it
    begin_at: float | None = None
    # whether they are put on hold
    is_held: bool = False
    # resources that they use
    uses: Sequence[Use] = ()
    # whether to submit each job by a call of its own
    is_each: bool = False
    # seconds to wait at most; None: to the end
    wait_s: float | None = None
    # whether to show output with its control sequences, also on a terminal
    is_raw: bool = False
    # whether the exit code is the command's, when the job is waited for
    ends_as_command: bool = False
    # whether the exit code of several jobs is the highest of theirs; else 1 if one failed
    takes_highest: bool = False
    # name of the program in the reason trail
    program: str = "gnt-job"


def job_with_wishes(ops: Sequence[OpInput], wishes: Wishes, command: str) -> list[OpInput]:
    """The job with the chosen priority and terms, and with its submitter at the end of the reason trails.

    Raises: InvalidRequest: the job has terms that break a rule, or gets too many of them.
    """
    now_ns = time.time_ns()
    changed = [_with_origin(op, wishes, command, now_ns) for op in ops]
    return [_with_terms_of(changed[0], wishes, now_ns), *changed[1:]] if changed else []


def _with_origin(op: OpInput, wishes: Wishes, command: str, now_ns: int) -> OpInput:
    entries = (submitter_entry(user_name(), now_ns), *user_trail(wishes.reason, wishes.program, command, now_ns))
    trail = [entry.to_wire() for entry in entries]
    reasons = op.get("reason") or []
    changed = {**op, "reason": [*reasons, *trail] if isinstance(reasons, list) else reasons}
    if wishes.is_dry:
        changed["dry_run"] = True
    if wishes.priority is not None:
        changed["priority"] = SUBMIT_PRIORITIES[wishes.priority]
    return changed


def _with_terms_of(op: OpInput, wishes: Wishes, now_ns: int) -> OpInput:
    wanted = JobTerms(
        wishes.job_name or "",
        dict(wishes.job_labels),
        wishes.begin_at,
        Hold(why=wishes.reason or "") if wishes.is_held else None,
        tuple(wishes.uses),
    )
    return op if wanted == NO_TERMS else op_with_terms(op, wanted, now_ns)


def op_with_terms(op: OpInput, wanted: JobTerms, now_ns: int) -> OpInput:
    """The first opcode of a job with these terms, which win over those that its trail has.

    Raises: InvalidRequest: the terms break a rule.
    """
    trail = op.get("reason") or []
    if not isinstance(trail, list):
        return op
    text = terms_text(trail)
    given = NO_TERMS if text is None else check_terms(text)
    joined = checked(join_terms(given, wanted))
    rest = [entry for entry in trail if not (isinstance(entry, list) and entry and entry[0] == SOURCE)]
    return {**op, "reason": [*rest, terms_entry(joined, now_ns).to_wire()]}


def join_terms(given: JobTerms, wanted: JobTerms) -> JobTerms:
    """Both; where both say something, `wanted` wins."""
    uses = {use.key: use for use in (*given.uses, *wanted.uses)}
    return JobTerms(
        wanted.name or given.name,
        {**given.labels, **wanted.labels},
        given.begin_at if wanted.begin_at is None else wanted.begin_at,
        wanted.hold or given.hold,
        tuple(uses.values()),
    )

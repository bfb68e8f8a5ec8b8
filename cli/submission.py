"""Submit jobs: the common options, the call, and its report.

Source: cli.md 1.2; luxid.md 2.2.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TypedDict, TypeVar

import attrs
import click

from cli.connection import open_luxid
from cli.context import command_line, job_program, wants_json
from cli.durations import POSITIVE_DURATION
from cli.exitcodes import DONE, FAILED, OURS
from cli.live.outputscreen import OutputScreen, raw_option
from cli.luxid import Luxid
from cli.options import F, with_options
from cli.screen import complain, remark, say, say_json
from cli.user import user_name
from common.errors import ConnectionLost, Unavailable
from common.ids import JobId
from common.queue.jobs import SUBMIT_PRIORITIES
from common.queue.reasons import user_trail
from common.queue.submitter import submitter_entry
from protocol.luxi.output import OutputStream
from protocol.luxi.submission import OpInput, Refused, SubmitAnswer, SubmitJob, SubmitManyJobs, Submitted
from protocol.messages import Request

R = TypeVar("R")

# seconds to wait for a luxid that left without a reply
RETRY_S: Final = 10.0
PRIORITIES: Final = tuple(SUBMIT_PRIORITIES)


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
    # whether to check only: the opcodes change nothing
    is_dry: bool = False
    # whether to submit each job by a call of its own
    is_each: bool = False
    # seconds to wait at most; None: to the end
    wait_s: float | None = None
    # whether to show output with its control sequences, also on a terminal
    is_raw: bool = False
    # whether the exit code is the command's, when the job is waited for
    ends_as_command: bool = False
    # name of the program in the reason trail
    program: str = "gnt-job"


class SubmitOptions(TypedDict):
    """What `submit_options` pass to a verb."""

    priority: str | None
    reason: str | None
    is_dry: bool
    is_waiting: bool
    is_ganeti_form: bool
    prints_ids: bool


class FollowOptions(SubmitOptions):
    """What `submit_options` and `wait_options` pass to a verb."""

    wait_s: float | None
    is_raw: bool


def submit_options(function: F) -> F:
    """`--priority`, `--reason`, `--dry-run`, `--wait`, `--submit` and `--print-jobid`."""
    return with_options(
        function,
        click.option("--priority", type=click.Choice(PRIORITIES), help="How urgent; normal if left out."),
        click.option("--reason", metavar="TEXT", help="Why; stands in the reason trail, and may name a rate limit."),
        click.option("--dry-run", "is_dry", is_flag=True, help="Let the opcodes check all, and change nothing."),
        click.option("--wait", "is_waiting", is_flag=True, help="Follow to the end: output, log, exit code."),
        click.option(
            "--submit",
            "is_ganeti_form",
            is_flag=True,
            help="Print 'JobID: N' on standard error, and do not wait.",
        ),
        click.option("--print-jobid", "prints_ids", is_flag=True, help="Print the id first, also with --wait."),
    )


def wait_options(function: F) -> F:
    """`--wait-timeout` and `--raw`, for verbs that end with their command's exit code."""
    text = "With --wait: wait no longer; the job goes on."
    return click.option("--wait-timeout", "wait_s", type=POSITIVE_DURATION, help=text)(raw_option(function))


def with_wishes(op: OpInput, wishes: Wishes, command: str) -> OpInput:
    """The opcode with the chosen priority, and with its submitter at the end of the reason trail."""
    now_ns = time.time_ns()
    entries = (submitter_entry(user_name(), now_ns), *user_trail(wishes.reason, wishes.program, command, now_ns))
    trail = [entry.to_wire() for entry in entries]
    reasons = op.get("reason") or []
    changed = {**op, "reason": [*reasons, *trail] if isinstance(reasons, list) else reasons}
    if wishes.is_dry:
        changed["dry_run"] = True
    if wishes.priority is not None:
        changed["priority"] = SUBMIT_PRIORITIES[wishes.priority]
    return changed


def submit_jobs(
    jobs: Sequence[Sequence[OpInput]],
    wishes: Wishes,
    succeeded: Callable[[Sequence[JobId]], None] | None = None,
    nodes: Sequence[str] = (),
) -> int:
    """Submit, print the ids, and follow the jobs if wanted; return the exit code.

    Args:
        succeeded: called when the jobs were followed and all have ended well.
        nodes: for each job its node; empty: they are not told by nodes.
    """
    if wishes.is_waiting:
        # imported late: most submissions are not followed; imported now, Ctrl-C works as soon as the id is printed
        from cli.live.watching import streams_of
    with open_luxid() as client:
        answers = send_jobs(client, jobs, wishes)
    ids = taken(answers)
    if nodes:
        _tell_ids(ids, _by_node(nodes, answers), wishes)
    else:
        _tell_ids(ids, ids[0] if ids and len(jobs) == 1 else answers, wishes)
    code = tell_refused(answers, nodes)
    if not wishes.is_waiting:
        return code
    if not ids:
        return OURS if wishes.ends_as_command else code
    streams = streams_of(op for job in jobs for op in job)
    code = _follow(ids, streams, wishes, are_all_taken=len(ids) == len(jobs))
    if code == DONE and succeeded is not None:
        succeeded(ids)
    return code


def _follow(ids: Sequence[int], streams: Sequence[OutputStream], wishes: Wishes, *, are_all_taken: bool) -> int:
    """Follow the jobs to their end; return the exit code."""
    from cli.live.watching import GoesOn, follow_own
    from cli.waitcodes import wait_code

    try:
        outcomes = follow_own(ids, streams, OutputScreen(is_raw=wishes.is_raw), wishes.wait_s)
    except GoesOn as goes_on:
        return goes_on.code
    are_good = are_all_taken and all(outcome.is_success for outcome in outcomes)
    if not wishes.ends_as_command or not are_all_taken:
        return DONE if are_good else FAILED
    return wait_code(outcomes)


def send_jobs(client: Luxid, jobs: Sequence[Sequence[OpInput]], wishes: Wishes) -> Sequence[SubmitAnswer]:
    """Submit the jobs; return what became of each.

    Each call has a key. If luxid goes away before it replies, the call is sent again, and luxid returns the
    same ids if it had received the first one.

    Raises: ConnectionLost: luxid did not come back; whether it took the jobs is unknown. Else as
        `BlockingClient.call`: no job was taken; with one call per job, earlier ones may have been.
    """
    if len(jobs) == 1 or wishes.is_each:
        return [Submitted(_call_once(client, SubmitJob(tuple(job), _new_key()))) for job in jobs]
    return _call_once(client, SubmitManyJobs(tuple(tuple(job) for job in jobs), _new_key()))


def taken(answers: Sequence[SubmitAnswer]) -> list[JobId]:
    """The ids of the jobs that were taken."""
    return [answer.job_id for answer in answers if isinstance(answer, Submitted)]


def _new_key() -> str:
    return os.urandom(16).hex()


def _call_once(client: Luxid, request: Request[R]) -> R:
    """Call, and call again if the reply was lost; the request has a key, so luxid carries it out once."""
    try:
        return client.call(request)
    except ConnectionLost as lost:
        try:
            return client.call_retrying(request, timeout_s=RETRY_S)
        except Unavailable:
            raise lost from None


def _tell_ids(ids: Sequence[int], answer: object, wishes: Wishes) -> None:
    if wishes.prints_ids or not (wishes.is_waiting or wishes.is_ganeti_form):
        if wants_json():
            say_json(answer)
        else:
            for job_id in ids:
                say(str(job_id))
        sys.stdout.flush()
    if wishes.is_ganeti_form:
        for job_id in ids:
            remark(f"JobID: {job_id}")
    elif not wishes.is_waiting and ids and sys.stderr.isatty() and sys.stdout.isatty():
        remark(f"watch with: {command_line(job_program(), 'watch', *ids)}")


def _by_node(nodes: Sequence[str], answers: Sequence[SubmitAnswer]) -> list[dict[str, object]]:
    """The wire form of what became of each node's job."""
    return [
        {"node": node, "id": answer.job_id}
        if isinstance(answer, Submitted)
        else {"node": node, "refused": answer.message}
        for node, answer in zip(nodes, answers, strict=True)
    ]


def tell_refused(answers: Sequence[SubmitAnswer], nodes: Sequence[str] = ()) -> int:
    """Report the jobs that were not taken; return the exit code."""
    code = 0
    for place, answer in enumerate(answers):
        if isinstance(answer, Refused):
            which = f"the job for {nodes[place]}" if nodes else f"job {place + 1} of {len(answers)}"
            complain(f"{which} was not taken: {answer.message}")
            code = 1
    return code

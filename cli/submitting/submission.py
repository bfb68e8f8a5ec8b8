"""Submit jobs: the call, and its report.

Source: cli.md 1.2; luxid.md 2.2; DESIGN section 16.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from cli.choosing.jobids import PREVIOUS
from cli.choosing.lastsubmission import note_submission
from cli.connection import Luxid, ask_luxid, open_luxid
from cli.context import command_line, installation, job_program, wants_json
from cli.exitcodes import DONE, FAILED, OURS
from cli.outputscreen import OutputScreen
from cli.remoteoptions import is_remote
from cli.screen import complain, remark, say, say_json
from cli.submitting.options import SubmissionOptions, job_with_options
from common.errors import ConnectionLost, GantryError, InvalidRequest, Unavailable, reason_of
from common.ids import JobId
from common.queue.terms import Use, terms_of_trail, terms_text
from common.resources import units_text
from protocol.luxi.jobs import (
    Accepted,
    NewJob,
    OpInput,
    OutputStream,
    Refused,
    SubmitAnswer,
    SubmitJob,
    SubmitManyJobs,
    SubmitOnce,
)
from protocol.luxi.queries import QueryJobs
from protocol.luxi.queue import ReadResourceUse, ResourceUse
from protocol.messages import Request

# Words for resources that a submission wants and cannot get as things are: a mistyped name waits for ever.
#
# Source: DESIGN section 16.


# part of the terms of a job that uses resources
_HAS_USES = '"uses"'


def tell_lacking(client: Luxid, jobs: Sequence[Sequence[OpInput]]) -> None:
    """Tell which resources nobody has set, or has set to fewer than a job wants; they are asked for only if wanted.

    Raises nothing: the jobs are submitted, and their ids are not yet told. Who may submit need not see the resources.
    """
    if wanted := list(_uses(jobs)):
        try:
            known = client.call(ReadResourceUse())
        except (GantryError, OSError):
            return
        for line in lacking(wanted, known):
            remark(line)


def _uses(jobs: Sequence[Sequence[OpInput]]) -> Iterator[Use]:
    for job in jobs:
        trail = job[0].get("reason") if job else None
        if _HAS_USES in (terms_text(trail) or ""):
            yield from terms_of_trail(trail).uses


def lacking(wanted: Iterable[Use], known: Iterable[ResourceUse]) -> Iterator[str]:
    """A line for each resource of which there is not what is wanted most."""
    most: dict[str, int] = {}
    for use in wanted:
        most[use.key] = max(use.count, most.get(use.key, 0))
    resources = {each.resource.key: each.resource for each in known}
    for key, count in most.items():
        resource = resources.get(key)
        if resource is None:
            yield f"nobody has set '{key}', so the job waits; set it with: gantry resource set {key} TOTAL"
        elif count > resource.total:
            wants, total = (units_text(each, resource.unit) for each in (count, resource.total))
            yield f"{wants} of '{key}' are wanted, and there are only {total}: it is waited for until there are more"


R = TypeVar("R")

# seconds to wait for a luxid that left without a reply
RETRY_S: Final = 10.0
# jobs of a batch from which its share of the queue is told
MANY: Final = 1000


@attrs.frozen
class Sent:
    """What became of a submission."""

    # one for each job, in order
    answers: Sequence[SubmitAnswer]
    # whether it was submitted before, under its key: these are the answers of then
    is_earlier: bool = False


def submit_jobs(
    jobs: Sequence[Sequence[OpInput]],
    options: SubmissionOptions,
    succeeded: Callable[[Sequence[JobId]], None] | None = None,
    elements: Sequence[Mapping[str, str]] = (),
    batch_id: str = "",
    located: Callable[[str], str] = str,
) -> int:
    """Submit, print the ids, and follow the jobs if wanted; return the exit code.

    Args:
        succeeded: called when the jobs were followed and all have ended well.
        elements: for each job what tells it from the others, by name, such as its node; empty: its place does.
        batch_id: the batch of these elements.
        located: adds to luxid's words about a job where the job is written.
    """
    if options.is_preview:
        return _tell_preview(jobs, elements)
    if options.is_waiting:
        # imported late: most submissions are not followed; imported now, Ctrl-C works as soon as the id is printed
        from cli.live.watching import streams_of
    with open_luxid() as client:
        sent = send_jobs(client, jobs, options)
        if not sent.is_earlier:
            tell_lacking(client, jobs)
    answers, ids = sent.answers, taken(sent.answers)
    if ids:
        note_submission(ids, options.key)
    if elements:
        _tell_ids(sent, _by_element(elements, answers), options, PREVIOUS if sent.is_earlier else batch_id)
    else:
        _tell_ids(sent, ids[0] if ids and len(jobs) == 1 else answers, options)
    if elements:
        _tell_places(len(ids))
    code = tell_refused(answers, elements, located)
    if not options.is_waiting:
        return code
    if not ids:
        return OURS if options.ends_as_command else code
    streams = streams_of(op for job in jobs for op in job)
    code = _follow(ids, streams, options, are_all_taken=len(ids) == len(jobs))
    if code == DONE and succeeded is not None:
        succeeded(ids)
    return code


def _tell_preview(jobs: Sequence[Sequence[OpInput]], elements: Sequence[Mapping[str, str]]) -> int:
    """Check the jobs, and tell which they are; nothing is submitted. Raises: InvalidRequest: an opcode is malformed."""
    # imported late: most submissions are real
    from common.opcodes.base import summary
    from common.opcodes.registry import parse_opcode
    from common.printable import printable

    titles = [", ".join(summary(parse_opcode(op)) for op in ops) for ops in jobs]
    if wants_json():
        say_json([{**(elements[place] if elements else {}), "ops": ops} for place, ops in enumerate(jobs)])
        return DONE
    for place, title in enumerate(titles):
        say(printable(f"{', '.join(elements[place].values())}: {title}" if elements else title))
    remark(f"would submit {len(jobs):,} job{'' if len(jobs) == 1 else 's'}; nothing was submitted")
    return DONE


def _follow(
    ids: Sequence[int], streams: Sequence[OutputStream], options: SubmissionOptions, *, are_all_taken: bool
) -> int:
    """Follow the jobs to their end; return the exit code."""
    from cli.live.watching import WaitAbandoned, follow_own
    from cli.outcomes import code_of_all, wait_code

    try:
        outcomes = follow_own(ids, streams, OutputScreen(is_raw=options.is_raw), options.wait_s)
    except WaitAbandoned as goes_on:
        return goes_on.code
    if not are_all_taken:
        return FAILED
    if not options.ends_as_command:
        return code_of_all(outcomes)
    return wait_code(outcomes, is_highest=options.takes_highest)


def send_jobs(client: Luxid, jobs: Sequence[Sequence[OpInput]], options: SubmissionOptions) -> Sent:
    """Submit the jobs; return what became of each.

    Each call has a key. If luxid goes away before it replies, the call is sent again, and luxid returns the
    same ids if it had received the first one.

    Raises: ConnectionLost: luxid did not come back; whether it took the jobs is unknown. Else as
        `BlockingClient.call`: no job was taken; with one call per job, earlier ones may have been.
    """
    if options.key is not None:
        return _send_once(client, SubmitOnce(tuple(tuple(job) for job in jobs), options.key))
    if len(jobs) == 1 or options.is_each:
        return Sent([Accepted(_call_once(client, SubmitJob(tuple(job), _new_key()))[0]) for job in jobs])
    return Sent(_call_once(client, SubmitManyJobs(tuple(tuple(job) for job in jobs), _new_key()))[0])


def _send_once(client: Luxid, request: SubmitOnce) -> Sent:
    told, is_resent = _call_once(client, request)
    if len(told.answers) == 1 and isinstance(told.answers[0], Refused):
        # as a submission of one job without a key
        raise InvalidRequest(told.answers[0].message)
    return Sent(told.answers, told.is_earlier and not is_resent)


def taken(answers: Sequence[SubmitAnswer]) -> list[JobId]:
    """The ids of the jobs that were taken."""
    return [answer.job_id for answer in answers if isinstance(answer, Accepted)]


def _new_key() -> str:
    return os.urandom(16).hex()


def _call_once(client: Luxid, request: Request[R]) -> tuple[R, bool]:
    """Call, and call again if the reply was lost; the request has a key, so luxid carries it out once.

    Returns: the reply, and whether it was sent again.
    """
    try:
        return client.call(request), False
    except ConnectionLost as lost:
        try:
            return client.call_retrying(request, timeout_s=RETRY_S), True
        except Unavailable:
            raise lost from None


def _tell_ids(sent: Sent, answer: object, options: SubmissionOptions, batch_id: str = "") -> None:
    ids = taken(sent.answers)
    if sent.is_earlier and ids:
        remark(f"already submitted as {jobs_text(ids)}")
    if options.prints_ids or not (options.is_waiting or options.is_ganeti_form):
        try:
            if wants_json():
                say_json(answer if options.key is None else {"jobs": answer, "is_earlier": sent.is_earlier})
            else:
                for job_id in ids:
                    say(str(job_id))
            sys.stdout.flush()
        except OSError as error:
            if ids:
                # who takes the error for a refusal submits them once more
                remark(f"submitted as {jobs_text(ids)}; only the output fails: {reason_of(error)}")
            raise
    if options.is_ganeti_form:
        for job_id in ids:
            remark(f"JobID: {job_id}")
    elif not options.is_waiting and ids and sys.stderr.isatty() and sys.stdout.isatty():
        named: Sequence[object] = ("--batch", batch_id) if batch_id else ids
        remark(f"watch with: {command_line(job_program(), 'watch', *named)}")


def _tell_places(count: int) -> None:
    """Tell how much of the queue a large batch takes: each of its jobs counts."""
    if count >= MANY and not is_remote():
        most = installation().luxid.max_queued_jobs
        remark(f"{count:,} jobs take {count:,} of {most:,} queue places")


def jobs_text(ids: Sequence[int]) -> str:
    """`job 17`, `jobs 17-20`."""
    if len(ids) == 1:
        return f"job {ids[0]}"
    if ids[-1] - ids[0] == len(ids) - 1:
        return f"jobs {ids[0]}-{ids[-1]}"
    return f"jobs {', '.join(map(str, ids))}"


def _by_element(elements: Sequence[Mapping[str, str]], answers: Sequence[SubmitAnswer]) -> list[dict[str, object]]:
    """The wire form of what became of each element's job."""
    return [
        {**element, "id": answer.job_id} if isinstance(answer, Accepted) else {**element, "refused": answer.message}
        for element, answer in zip(elements, answers, strict=True)
    ]


def tell_refused(
    answers: Sequence[SubmitAnswer],
    elements: Sequence[Mapping[str, str]] = (),
    located: Callable[[str], str] = str,
) -> int:
    """Report the jobs that were not taken; return the exit code."""
    code = 0
    for place, answer in enumerate(answers):
        if isinstance(answer, Refused):
            which = f"job {place + 1} of {len(answers)}"
            if elements:
                which = f"the job for {', '.join(elements[place].values())}"
            complain(f"{which} was not taken: {located(answer.message)}")
            code = 1
    return code


# Jobs of one opcode each that change the cluster: followed to the end, unless the user does not want to wait.
#
# Source: cli.md 1.2.


def carry_out(
    op: OpInput, submission: SubmissionOptions, program: str, verb: str, tell: Callable[[object], None] | None = None
) -> int:
    """Carry out an opcode by a job; return the exit code.

    As with Ganeti's command it is waited for, except with `--submit`.

    Args: tell: prints the opcode's result, after a success.
    """
    options = _waited_for(submission, program)

    def succeeded(job_ids: Sequence[JobId]) -> None:
        if tell is not None:
            tell(result_of(job_ids[0]))

    return submit_jobs([job_with_options(NewJob((op,)), options, verb)], options, succeeded)


def tell_changes(key: str, title: str, name: str) -> Callable[[object], None]:
    """A function that prints the changes which an opcode's result tells. Args: key, title: kind of the object."""

    def tell(result: object) -> None:
        changes = result if isinstance(result, list) else []
        if wants_json():
            say_json({key: name, "changes": changes})
        elif changes:
            say(f"Modified {title} {name}")
            for parameter, value in changes:
                say(f" - {parameter:<5} -> {value}")

    return tell


def carry_out_each(ops: Sequence[OpInput], submission: SubmissionOptions, program: str, verb: str) -> int:
    """Carry out opcodes by a job each; otherwise as `carry_out`."""
    options = _waited_for(submission, program)
    return submit_jobs([job_with_options(NewJob((op,)), options, verb) for op in ops], options)


def _waited_for(submission: SubmissionOptions, program: str) -> SubmissionOptions:
    is_waiting = submission.is_waiting or not submission.is_ganeti_form
    return attrs.evolve(submission, program=program, is_waiting=is_waiting)


def result_of(job_id: JobId) -> object:
    """The result of the job's only opcode."""
    ((results,),) = ask_luxid(QueryJobs((job_id,), ("opresult",)))
    return results[0] if isinstance(results, list) and results else None

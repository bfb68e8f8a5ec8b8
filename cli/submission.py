"""Submit jobs: the call, and its report.

Source: cli.md 1.2; luxid.md 2.2; DESIGN section 16.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from cli.choosing.jobids import PREVIOUS
from cli.connection import open_luxid
from cli.context import command_line, installation, job_program, wants_json
from cli.exitcodes import DONE, FAILED, OURS
from cli.live.outputscreen import OutputScreen
from cli.luxid import Luxid
from cli.remote.remoteoptions import is_remote
from cli.screen import complain, remark, say, say_json
from cli.submitting.lastsubmission import note_submission
from cli.submitting.resourcewords import tell_lacking
from cli.submitting.wishes import Wishes
from common.errors import ConnectionLost, InvalidRequest, Unavailable
from common.ids import JobId
from protocol.luxi.output import OutputStream
from protocol.luxi.submission import OpInput, Refused, SubmitAnswer, SubmitJob, SubmitManyJobs, SubmitOnce, Submitted
from protocol.messages import Request

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
    wishes: Wishes,
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
    if wishes.is_preview:
        return _tell_preview(jobs, elements)
    if wishes.is_waiting:
        # imported late: most submissions are not followed; imported now, Ctrl-C works as soon as the id is printed
        from cli.live.watching import streams_of
    with open_luxid() as client:
        sent = send_jobs(client, jobs, wishes)
        if not sent.is_earlier:
            tell_lacking(client, jobs)
    answers, ids = sent.answers, taken(sent.answers)
    if ids:
        note_submission(ids, wishes.key)
    if elements:
        _tell_ids(sent, _by_element(elements, answers), wishes, PREVIOUS if sent.is_earlier else batch_id)
    else:
        _tell_ids(sent, ids[0] if ids and len(jobs) == 1 else answers, wishes)
    if elements:
        _tell_places(len(ids))
    code = tell_refused(answers, elements, located)
    if not wishes.is_waiting:
        return code
    if not ids:
        return OURS if wishes.ends_as_command else code
    streams = streams_of(op for job in jobs for op in job)
    code = _follow(ids, streams, wishes, are_all_taken=len(ids) == len(jobs))
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


def _follow(ids: Sequence[int], streams: Sequence[OutputStream], wishes: Wishes, *, are_all_taken: bool) -> int:
    """Follow the jobs to their end; return the exit code."""
    from cli.live.watching import GoesOn, follow_own
    from cli.outcomes import code_of_all
    from cli.waitcodes import wait_code

    try:
        outcomes = follow_own(ids, streams, OutputScreen(is_raw=wishes.is_raw), wishes.wait_s)
    except GoesOn as goes_on:
        return goes_on.code
    if not are_all_taken:
        return FAILED
    if not wishes.ends_as_command:
        return code_of_all(outcomes)
    return wait_code(outcomes, is_highest=wishes.takes_highest)


def send_jobs(client: Luxid, jobs: Sequence[Sequence[OpInput]], wishes: Wishes) -> Sent:
    """Submit the jobs; return what became of each.

    Each call has a key. If luxid goes away before it replies, the call is sent again, and luxid returns the
    same ids if it had received the first one.

    Raises: ConnectionLost: luxid did not come back; whether it took the jobs is unknown. Else as
        `BlockingClient.call`: no job was taken; with one call per job, earlier ones may have been.
    """
    if wishes.key is not None:
        return _send_once(client, SubmitOnce(tuple(tuple(job) for job in jobs), wishes.key))
    if len(jobs) == 1 or wishes.is_each:
        return Sent([Submitted(_call_once(client, SubmitJob(tuple(job), _new_key()))[0]) for job in jobs])
    return Sent(_call_once(client, SubmitManyJobs(tuple(tuple(job) for job in jobs), _new_key()))[0])


def _send_once(client: Luxid, request: SubmitOnce) -> Sent:
    told, is_resent = _call_once(client, request)
    if len(told.answers) == 1 and isinstance(told.answers[0], Refused):
        # as a submission of one job without a key
        raise InvalidRequest(told.answers[0].message)
    return Sent(told.answers, told.is_earlier and not is_resent)


def taken(answers: Sequence[SubmitAnswer]) -> list[JobId]:
    """The ids of the jobs that were taken."""
    return [answer.job_id for answer in answers if isinstance(answer, Submitted)]


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


def _tell_ids(sent: Sent, answer: object, wishes: Wishes, batch_id: str = "") -> None:
    ids = taken(sent.answers)
    if sent.is_earlier and ids:
        remark(f"already submitted as {jobs_text(ids)}")
    if wishes.prints_ids or not (wishes.is_waiting or wishes.is_ganeti_form):
        if wants_json():
            say_json(answer if wishes.key is None else {"jobs": answer, "is_earlier": sent.is_earlier})
        else:
            for job_id in ids:
                say(str(job_id))
        sys.stdout.flush()
    if wishes.is_ganeti_form:
        for job_id in ids:
            remark(f"JobID: {job_id}")
    elif not wishes.is_waiting and ids and sys.stderr.isatty() and sys.stdout.isatty():
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
        {**element, "id": answer.job_id} if isinstance(answer, Submitted) else {**element, "refused": answer.message}
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

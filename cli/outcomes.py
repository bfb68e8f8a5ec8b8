"""Ask luxid how jobs ended, and report those that failed."""

import signal
from collections.abc import Mapping, Sequence
from typing import Final

from cli.connection import Luxid
from cli.exitcodes import DONE, FAILED, NEVER_RAN, OURS, SIGNALLED, TIME_OVER
from cli.query import query_jobs
from cli.screen import complain, remark
from common.words.outcome import FIELDS, Outcome, explain_failure, explain_not_needed, not_needed, outcome_of


def fetch_outcomes(client: Luxid, job_ids: Sequence[int]) -> list[Outcome]:
    """How these jobs ended, in the order asked.

    Raises: JobLost: a job does not exist. Else as `BlockingClient.call`.
    """
    return [outcome_of(row) for row in query_jobs(client, job_ids, FIELDS)] if job_ids else []


def that_count(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those by which an exit code for all goes: all but the jobs that were not needed."""
    left_out = not_needed(outcomes)
    return [outcome for outcome in outcomes if outcome.job_id not in left_out]


def code_of_all(outcomes: Sequence[Outcome]) -> int:
    """One exit code for all."""
    return DONE if all(outcome.is_success for outcome in that_count(outcomes)) else FAILED


def judge(outcomes: Sequence[Outcome]) -> int:
    """Report each job that did not succeed; return one exit code for all."""
    tell_failures(outcomes)
    return code_of_all(outcomes)


def tell_failures(outcomes: Sequence[Outcome]) -> None:
    """A line for each job that did not succeed."""
    left_out = not_needed(outcomes)
    for outcome in outcomes:
        if outcome.job_id in left_out:
            remark(explain_not_needed(outcome))
        elif not outcome.is_success:
            complain(explain_failure(outcome))


# The exit code of a tool that waits for a command, computed from the ends of its jobs.
#
# Source: everyday.md i; `cli.exitcodes`.


_COMMAND: Final = "OP_RUN_COMMAND"
_NOT_AS_NEEDED: Final = "OpPrereqError"


def wait_code(outcomes: Sequence[Outcome], *, is_highest: bool = False) -> int:
    """For one job the exit code of its command; for several 0 if all succeeded, else 1, or the highest of theirs.

    Of several, those that were not needed do not count.
    """
    if len(outcomes) == 1 or (is_highest and outcomes):
        return max(map(_code_of, that_count(outcomes)), default=DONE)
    return code_of_all(outcomes)


def _code_of(job: Outcome) -> int:
    match job.status:
        case "success":
            codes = [result.get("exit_code") for result in job.results if isinstance(result, Mapping)]
            return next((code for code in reversed(codes) if isinstance(code, int)), DONE)
        case "canceled":
            return NEVER_RAN
        case "error":
            place = next((at for at, status in enumerate(job.statuses) if status == "error"), None)
            return OURS if place is None else _code_of_failure(job, place)
        case _:
            return OURS


def _code_of_failure(job: Outcome, place: int) -> int:
    match job.results[place]:
        case [_, [_, {"exit_code": code, **end}]]:
            return _code_of_end(code, end)
        case [str(name), *_] if name == _NOT_AS_NEEDED:
            return NEVER_RAN
        case _ if not job.has_begun(place):
            return NEVER_RAN
        case _:
            # what kept us from knowing must not be taken for the command's own word
            return OURS if job.op_id(place) == _COMMAND else FAILED


def _code_of_end(code: object, end: Mapping[object, object]) -> int:
    """Args: end: the other fields that the opcode's error has about the command."""
    if not end.get("has_begun", True):
        return NEVER_RAN
    if end.get("timed_out"):
        return TIME_OVER
    if isinstance(code, int):
        # 0 is a failure where another code was wanted
        return code or FAILED
    name = str(end.get("signal") or "")
    if name in signal.Signals.__members__:
        return SIGNALLED + signal.Signals[name]
    number = name.removeprefix("SIG")
    return SIGNALLED + int(number) if number.isdigit() else OURS

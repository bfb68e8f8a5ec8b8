"""Ask luxid how jobs ended, and report those that failed."""

from collections.abc import Sequence

from cli.exitcodes import DONE, FAILED
from cli.luxid import Luxid
from cli.query import query_jobs
from cli.screen import complain, remark
from common.words.notneeded import not_needed
from common.words.outcome import FIELDS, Outcome, explain_failure, explain_not_needed, outcome_of


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

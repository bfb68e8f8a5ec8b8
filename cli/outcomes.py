"""Ask luxid how jobs ended, and report those that failed."""

from collections.abc import Sequence

from cli.exitcodes import DONE, FAILED
from cli.luxid import Luxid
from cli.query import query_jobs
from cli.screen import complain
from common.words.outcome import FIELDS, Outcome, explain_failure, outcome_of


def fetch_outcomes(client: Luxid, job_ids: Sequence[int]) -> list[Outcome]:
    """How these jobs ended, in the order asked.

    Raises: JobLost: a job does not exist. Else as `BlockingClient.call`.
    """
    return [outcome_of(row) for row in query_jobs(client, job_ids, FIELDS)] if job_ids else []


def judge(outcomes: Sequence[Outcome]) -> int:
    """Report each job that did not succeed; return one exit code for all."""
    tell_failures(outcomes)
    return DONE if all(outcome.is_success for outcome in outcomes) else FAILED


def tell_failures(outcomes: Sequence[Outcome]) -> None:
    """A line for each job that did not succeed."""
    for outcome in outcomes:
        if not outcome.is_success:
            complain(explain_failure(outcome))

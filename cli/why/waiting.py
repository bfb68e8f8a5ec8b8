"""What jobs wait for, in a few words each: other jobs, locks and who holds them, or what else luxid tells."""

from collections.abc import Mapping, Sequence

from cli.connection import ask_luxid
from cli.words.reasons import in_words, worth_telling
from common.errors import GantryError
from common.ids import JobId
from common.queue.explanation import BeingWritten, Reason, WaitsForJob, WaitsForLock
from protocol.luxi.explain import ExplainJobs


def why_waiting(job_ids: Sequence[int]) -> Mapping[int, str]:
    """The reasons that will not be gone in a moment; a job without one is left out.

    Never raises for a daemon that is away: then there are no reasons.
    """
    try:
        answers = ask_luxid(ExplainJobs(tuple(map(JobId, job_ids))))
    except (GantryError, OSError):
        return {}
    told = ((job_id, _reason(reasons or ())) for job_id, reasons in zip(job_ids, answers, strict=True))
    return {job_id: reason for job_id, reason in told if reason}


def _reason(reasons: Sequence[Reason]) -> str:
    jobs = [reason.job_id for reason in reasons if isinstance(reason, WaitsForJob)]
    if jobs:
        return f"waits for {', '.join(f'job/{job_id}' for job_id in dict.fromkeys(jobs))} to end"
    locks = [_lock(reason) for reason in reasons if isinstance(reason, WaitsForLock)]
    if locks:
        return f"waits for {'; '.join(locks)}"
    lasting = [reason for reason in worth_telling(reasons) if not isinstance(reason, BeingWritten)]
    return in_words(lasting[0]) if lasting else ""


def _lock(reason: WaitsForLock) -> str:
    holders = dict.fromkeys(holder.owner for holder in reason.holders)
    return f"{reason.lock} ({reason.mode.value}), held by {', '.join(holders)}"

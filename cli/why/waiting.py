"""The reasons why jobs wait, one line each, from luxid."""

import time
from collections.abc import Mapping, Sequence

from cli.connection import ask_luxid
from cli.why.locknames import lock_names
from common.errors import GantryError
from common.ids import JobId
from common.words.why.reasons import in_short
from protocol.luxi.why.explain import ExplainJobs


def why_waiting(job_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the reasons that will last; a job without one is left out.

    Never raises because a daemon is away: the result is empty then.
    """
    try:
        answers = ask_luxid(ExplainJobs(tuple(map(JobId, job_ids))))
    except (GantryError, OSError):
        return {}
    now = time.time()
    told = {job_id: in_short(reasons or (), now) for job_id, reasons in zip(job_ids, answers, strict=True)}
    put_names = lock_names(told.values(), is_short=True)
    return {job_id: put_names(text) for job_id, text in told.items() if text}

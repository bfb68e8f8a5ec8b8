"""Why jobs do not run: luxid's reasons for them, and for the jobs that block them, to the root of the chain.

Source: DESIGN section 6, "Explain".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from cli.connection import open_luxid
from cli.luxid import Luxid
from cli.outcomes import fetch_outcomes
from cli.query import query_jobs
from cli.why.waithistory import job_waits
from common.ids import JobId
from common.queue.explanation import Reason
from common.queue.jobs import FINAL_NAMES
from common.queue.waithistory import Span
from common.words.fields import Row
from common.words.outcome import Outcome
from common.words.why.culprits import culprits
from protocol.luxi.why.explain import ExplainJobs

FIELDS: Final = (
    *("id", "status", "name", "summary", "uses", "tries"),
    *("begin_ts", "received_ts", "start_ts", "end_ts"),
)
# maximum number of jobs that one command looks at; chains may be long
_MOST: Final = 100


@attrs.frozen
class Explanation:
    """Everything known about one job."""

    row: Row
    # reasons why it does not run; None: the job is not live
    reasons: tuple[Reason, ...] | None
    # waits so far
    waits: tuple[Span, ...]
    # end of the job; None: it has not ended
    outcome: Outcome | None = None

    @property
    def culprits(self) -> Iterator[int]:
        """The jobs that block it, by their locks or because it depends on them."""
        return culprits(self.reasons)


def explain_jobs(job_ids: Sequence[int]) -> Mapping[int, Explanation]:
    """Explain these jobs and all jobs that block them, directly or through others.

    Raises: as `BlockingClient.call`.
    """
    found: dict[int, Explanation] = {}
    with open_luxid() as client:
        wanted = list(dict.fromkeys(job_ids))
        while wanted:
            new = _explain(client, wanted)
            found.update(new)
            named = dict.fromkeys(job_id for each in new.values() for job_id in each.culprits)
            wanted = [job_id for job_id in named if job_id not in found][: max(_MOST - len(found), 0)]
    return found


def _explain(client: Luxid, job_ids: Sequence[int]) -> Mapping[int, Explanation]:
    rows = query_jobs(client, job_ids, FIELDS)
    answers = client.call(ExplainJobs(tuple(JobId(row["id"]) for row in rows)))
    waits = job_waits(client, [row["id"] for row in rows])
    ended = [row["id"] for row in rows if row["status"] in FINAL_NAMES]
    outcomes = {outcome.job_id: outcome for outcome in fetch_outcomes(client, ended)}
    return {
        row["id"]: Explanation(
            row,
            reasons,
            tuple(waits.get(row["id"], ())),
            outcomes.get(row["id"]),
        )
        for row, reasons in zip(rows, answers, strict=True)
    }

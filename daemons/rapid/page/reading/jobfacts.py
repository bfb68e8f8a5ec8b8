"""Jobs, and why they wait or ended so."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import attrs

from common.ids import JobId
from common.query.kinds import QueryKind
from common.query.qlang import Expression
from common.queue.explanation import Reason
from common.queue.jobs import FINAL_NAMES
from common.words.fields import Row
from common.words.filters.filtertext import Expression as Wire
from common.words.filters.jobfilter import statuses_filter
from common.words.outcome import FIELDS as OUTCOME_FIELDS
from common.words.outcome import Outcome, outcome_of
from daemons.rapid.calls import Daemons
from protocol.luxi.queries import Page, Query, QueryJobs
from protocol.luxi.why.explain import ExplainJobs

UNENDED: Final[Wire] = ["!", statuses_filter(FINAL_NAMES)]
# ends that need an explanation
_UNHAPPY: Final = ("error", "canceled")


@attrs.frozen
class ToldJobs:
    """Some jobs, with what is known about why they do not run or did not succeed."""

    rows: tuple[Row, ...]
    reasons: Mapping[int, Sequence[Reason] | None]
    outcomes: Mapping[int, Outcome]


async def page_of_jobs(
    daemons: Daemons, fields: Sequence[str], filter: Expression | None, *, limit: int, after: int | None = None
) -> tuple[Row, ...]:
    """Jobs, newest first.

    Args: after: id of the last job of the page before.
    """
    page = Page(limit, None if after is None else JobId(after))
    answer = await daemons.luxid(Query(QueryKind.JOB, tuple(fields), filter, page))
    rows = (dict(zip(fields, values, strict=True)) for values in answer.values())
    return tuple(cast(Row, row) for row in rows if row.get("status") is not None)


async def jobs_by_id(daemons: Daemons, job_ids: Sequence[int], fields: Sequence[str]) -> tuple[Row, ...]:
    """These jobs; those that do not exist are left out."""
    if not job_ids:
        return ()
    found = await daemons.luxid(QueryJobs(tuple(map(JobId, dict.fromkeys(job_ids))), tuple(fields)))
    rows = (dict(zip(fields, values, strict=True)) for values in found)
    return tuple(cast(Row, row) for row in rows if row.get("status") is not None)


async def told(daemons: Daemons, rows: Sequence[Row]) -> ToldJobs:
    """The rows with the explanations of those that wait, or did not succeed."""
    waiting = [row["id"] for row in rows if row["status"] not in FINAL_NAMES and row["status"] != "running"]
    unhappy = [row["id"] for row in rows if row["status"] in _UNHAPPY]
    outcomes = {row["id"]: outcome_of(row) for row in await jobs_by_id(daemons, unhappy, OUTCOME_FIELDS)}
    return ToldJobs(tuple(rows), await reasons_of(daemons, waiting), outcomes)


async def reasons_of(daemons: Daemons, job_ids: Sequence[int]) -> Mapping[int, Sequence[Reason] | None]:
    """Why these jobs do not run; None: a job is not live."""
    if not job_ids:
        return {}
    answers = await daemons.luxid(ExplainJobs(tuple(map(JobId, job_ids))))
    return dict(zip(job_ids, answers, strict=True))

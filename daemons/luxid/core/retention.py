"""Which ended jobs, outputs and histories are kept, and which are removed."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from common.featuresettings import RetentionSettings
from common.ids import JobId
from common.queue.jobs import FINAL, Job
from common.queue.reasons import batch_of
from daemons.luxid.core.past.endedrow import ColumnIndex
from daemons.luxid.core.past.queries import SqlCondition

DAY_S: Final = 86400.0
# more days than any clock has, for SQL
_NEVER: Final = -1e15


@attrs.frozen
class Mark:
    """An ended job that may be removed, as far as its age and its place among others decide."""

    job_id: JobId
    # None: its file does not say
    ended_at: float | None
    batch: str


def archivable(rules: RetentionSettings, now_s: float) -> SqlCondition:
    """Select the live jobs that are to be archived, by id."""
    before = _instant_before(now_s, rules.archive_after_s)
    return SqlCondition('SELECT id FROM jobs WHERE place = ? AND "end" < ? ORDER BY id', (ColumnIndex.LIVE, before))


def due(rules: RetentionSettings, now_s: float) -> SqlCondition:
    """Select the marks of the jobs that may be removed, archived or to be archived, by id.

    The latest jobs of each name stay; of the others those are due that are old, and those beyond the number of jobs.
    One whose end is not known is never old, and comes after all others.
    """
    sql = (
        'SELECT id, "end", batch FROM (SELECT id, "end", status, batch, place,'
        " ROW_NUMBER() OVER (PARTITION BY CASE WHEN name = '' THEN summary ELSE name END"
        ' ORDER BY "end" DESC, id DESC) AS by_name, ROW_NUMBER() OVER (ORDER BY "end" DESC, id DESC) AS by_all'
        " FROM jobs WHERE place < ?)"
        " WHERE by_name > ? AND (\"end\" < CASE status WHEN 'error' THEN ? ELSE ? END OR (? AND by_all > ?))"
        ' AND (place = ? OR "end" < ?) ORDER BY id'
    )
    of_age = (_days_before(now_s, rules.keep_failed_days), _days_before(now_s, rules.keep_days))
    of_number = (rules.keep_jobs > 0, rules.keep_jobs)
    of_place = (ColumnIndex.ARCHIVED, _instant_before(now_s, rules.archive_after_s))
    return SqlCondition(sql, (ColumnIndex.REMOVED, rules.keep_per_name, *of_age, *of_number, *of_place))


def read_marks(rows: Iterable[Sequence[object]]) -> list[Mark]:
    """The rows of `due`."""
    return [Mark(JobId(job_id), ended_at, batch) for job_id, ended_at, batch in rows]  # type: ignore[arg-type]  # of SQL


def outputs_due(rules: RetentionSettings, now_s: float) -> float:
    """The instant before which ended jobs have no output any more."""
    return _days_before(now_s, rules.keep_output_days)


def rows_due(rules: RetentionSettings, now_s: float) -> float:
    """The instant before which ended jobs that were removed have no row any more."""
    return _days_before(now_s, rules.keep_history_days)


def _days_before(now_s: float, days: float) -> float:
    return _instant_before(now_s, days * DAY_S)


def _instant_before(now_s: float, kept_s: float) -> float:
    """0 s: it is kept for ever."""
    return now_s - kept_s if kept_s else _NEVER


@attrs.frozen
class RetentionClaims:
    """What holds ended jobs back from being removed."""

    # jobs that unended ones depend on, and those of which a process is left
    needed: AbstractSet[int]
    # batches that have not ended
    batches: AbstractSet[str]
    # ids of submissions that may be repeated under their keys, ascending; no id is in two of them
    keyed: Sequence[range]
    # whether everybody who is to be told of a job's end has been told
    is_told: Callable[[JobId], bool]

    def allow(self, mark: Mark) -> bool:
        """Whether nothing holds the job. Cost: O(log n) in the submissions."""
        return (
            mark.job_id not in self.needed
            and not (mark.batch and mark.batch in self.batches)
            and not self._is_keyed(mark.job_id)
            and self.is_told(mark.job_id)
        )

    def _is_keyed(self, job_id: JobId) -> bool:
        place = bisect_right(self.keyed, job_id, key=_first)
        return place > 0 and job_id in self.keyed[place - 1]


def _first(job_ids: range) -> JobId:
    return JobId(job_ids.start)


def claims_of(job: Job) -> tuple[list[int], str]:
    """The jobs that an unended one depends on, now or later, and its batch. Reads what others wrote; never raises."""
    needed = [job_id for op in job.ops if op.state not in FINAL for job_id in _depended(op.input.get("depends"))]
    batch = batch_of(job)
    return needed, "" if batch is None else batch.batch_id


def _depended(depends: object) -> Iterable[int]:
    for each in depends if isinstance(depends, list | tuple) else ():
        match each:
            case [int(job_id), *_]:
                yield job_id
            case [str(text), *_] if text.isascii() and text.isdigit():
                yield int(text)
            case _:
                pass

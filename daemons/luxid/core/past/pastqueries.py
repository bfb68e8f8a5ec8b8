"""The questions to the index of the history, as SQL.

Theory. SQLite sorts and sums without the interpreter's lock, so that the event loop goes on meanwhile; the naive twin
of the sums in the tests does the same over lists. The 95th percentile is the nearest rank: of n sorted values the one
at the place ceil(0.95 n); of fewer than `FEW` the largest.

Source: everyday.md section g.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from common.errors import InvalidRequest
from common.ids import JobId
from common.queue.jobs import JobState
from daemons.luxid.core.past.conditions import Condition, condition_of
from daemons.luxid.core.past.pastfields import LABEL, Eyes, PastField
from protocol.luxi.history import EndedJob, Grouping, PastSum, ReadHistory, Sorting, SummarizeHistory

# values of fewer jobs have no percentile but the largest
FEW: Final = 20
# bounds of one reply
MOST_JOBS: Final = 20_000
MOST_GROUPS: Final = 1000
# SQLite takes no larger number
MOST_OFFSET: Final = 2**63 - 1
_SHOWN: Final = (
    *("id", "status", "name", "summary", "user"),
    *("received", "eligible", "start", "end", "wait", "run", "tries", "exit_code", "why", "node", "batch", "archived"),
)
_SORTED: Final[Mapping[Sorting, str]] = {sorting: sorting.value for sorting in Sorting}


def list_query(call: ReadHistory, eyes: Eyes) -> Condition:
    """Select the rows for `ended_job`. Raises: InvalidRequest, FilterError."""
    if not 0 <= call.limit <= MOST_JOBS or not 0 <= call.offset <= MOST_OFFSET:
        raise InvalidRequest(
            f"limit must be 0 to {MOST_JOBS} and offset 0 to {MOST_OFFSET}, got {call.limit}, {call.offset}"
        )
    fields, chosen = [eyes.field(name) for name in _SHOWN], condition_of(call.choice, eyes)
    order, way = eyes.field(_SORTED[call.sort]), "ASC" if call.is_ascending else "DESC"
    sql = (
        f"SELECT {', '.join(field.sql for field in fields)}, labels FROM jobs WHERE {chosen.sql}"
        f" ORDER BY {order.sql} {way} NULLS LAST, id {way} LIMIT ? OFFSET ?"
    )
    shown = tuple(param for field in fields for param in field.params)
    return Condition(sql, (*shown, *chosen.params, *order.params, call.limit, call.offset))


def count_query(call: ReadHistory, eyes: Eyes) -> Condition:
    """Count the jobs of the choice. Raises: as `list_query`."""
    chosen = condition_of(call.choice, eyes)
    return Condition(f"SELECT COUNT(*) FROM jobs WHERE {chosen.sql}", chosen.params)


def ended_job(row: Sequence[object], labels: Mapping[str, str]) -> EndedJob:
    """A row of `list_query`. Args: labels: its last column, read."""
    values = dict(zip(_SHOWN, row, strict=False))
    return EndedJob(
        JobId(_whole(values["id"])),
        JobState(values["status"]),
        str(values["name"]),
        str(values["summary"]),
        str(values["user"]),
        labels,
        received_at=_seconds(values["received"]),
        eligible_at=_seconds(values["eligible"]),
        start_at=_seconds(values["start"]),
        end_at=_seconds(values["end"]),
        wait_s=_seconds(values["wait"]),
        run_s=_seconds(values["run"]),
        tries=_whole(values["tries"]),
        exit_code=None if values["exit_code"] is None else _whole(values["exit_code"]),
        why=str(values["why"]),
        node=str(values["node"]),
        batch=str(values["batch"]),
        is_archived=bool(values["archived"]),
    )


def sum_queries(call: SummarizeHistory, eyes: Eyes) -> tuple[Condition, Condition, Condition]:
    """Select the sums of each group, then its percentile of waits, and of runs; for `past_sums`.

    Raises: InvalidRequest, FilterError.
    """
    if not 1 <= call.limit <= MOST_GROUPS:
        raise InvalidRequest(f"limit must be 1 to {MOST_GROUPS}, got {call.limit}")
    group, chosen = _group(call, eyes), condition_of(call.choice, eyes)
    sums = (
        f"SELECT {group.sql} AS grouped, COUNT(*), SUM(status = 'error'), SUM(status = 'canceled'), SUM(tries > 1),"
        f" AVG(wait), AVG(run), MAX(run) FROM jobs WHERE {chosen.sql}"
        " GROUP BY grouped ORDER BY COUNT(*) DESC, grouped LIMIT ?"
    )
    params = (*group.params, *chosen.params)
    return (
        Condition(sums, (*params, call.limit)),
        Condition(_percentiles(group, chosen, "wait"), params),
        Condition(_percentiles(group, chosen, "run"), params),
    )


def _percentiles(group: PastField, chosen: Condition, column: str) -> str:
    return (
        f"SELECT grouped, value FROM (SELECT grouped, value, ROW_NUMBER() OVER (PARTITION BY grouped ORDER BY value)"
        " AS place, COUNT(*) OVER (PARTITION BY grouped) AS count FROM"
        f" (SELECT {group.sql} AS grouped, {column} AS value FROM jobs WHERE {chosen.sql}) WHERE value IS NOT NULL)"
        f" WHERE place = CASE WHEN count < {FEW} THEN count ELSE (count * 95 + 99) / 100 END"
    )


def past_sums(
    sums: Sequence[Sequence[object]], waits: Mapping[object, float], runs: Mapping[object, float]
) -> tuple[PastSum, ...]:
    """The results of `sum_queries`."""
    return tuple(
        PastSum(
            str(group),
            _whole(count),
            _whole(failed),
            _whole(canceled),
            _whole(retried),
            _seconds(mean_wait),
            waits.get(group),
            _seconds(mean_run),
            runs.get(group),
            _seconds(most_run),
        )
        for group, count, failed, canceled, retried, mean_wait, mean_run, most_run in sums
    )


def _group(call: SummarizeHistory, eyes: Eyes) -> PastField:
    if call.by is Grouping.DAY:
        return PastField(eyes.field("name").kind, "COALESCE(day_of(\"end\"), '')")
    field = eyes.field(f"{LABEL}{call.label}" if call.by is Grouping.LABEL else call.by.value)
    return PastField(field.kind, f"COALESCE({field.sql}, '')", field.params)


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def _seconds(value: object) -> float | None:
    return None if value is None else float(str(value))

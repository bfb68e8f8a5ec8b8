"""Batches over HTTP.

Source: DESIGN sections 15 and 16.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, cast

from common.ids import JobId
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from common.words.fields import JobRow
from common.words.outcome import batch_state
from daemons.rapid.calls import Asked
from protocol.luxi.queries import Query
from protocol.rapid.jobs import BatchList, BatchNow

_FIELDS: Final = ("id", "status", "batch", "name", "user")
_OF_BATCHES: Final = Expression.from_wire(["!=", "batch", ""])


class Batches:
    """The call about batches."""

    async def list_batches(self, asked: Asked) -> BatchList:
        """Cost: linear in the jobs of the queue."""
        answer = await asked.daemons.luxid(Query(QueryKind.JOB, _FIELDS, _OF_BATCHES))
        members: dict[str, list[JobRow]] = {}
        for values in answer.values():
            row = cast(JobRow, dict(zip(_FIELDS, values, strict=True)))
            members.setdefault(row["batch"], []).append(row)
        found = [_batch(batch_id, rows) for batch_id, rows in members.items()]
        return BatchList(tuple(sorted(found, key=lambda batch: -batch.last_id)))


def _batch(batch_id: str, rows: Sequence[JobRow]) -> BatchNow:
    ordered = sorted(rows, key=lambda row: row["id"])
    first, last = ordered[0], ordered[-1]
    counts = Counter(str(row["status"]) for row in rows)
    return BatchNow(
        batch_id,
        batch_state(counts),
        dict(counts),
        first["name"] or "",
        first["user"] or "",
        JobId(first["id"]),
        JobId(last["id"]),
    )

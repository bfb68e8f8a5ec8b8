"""Locks, and the graph of waits to the root of each chain."""

from collections.abc import Mapping, Sequence
from typing import Final

from common.query.kinds import QueryKind
from common.queue.explanation import Reason
from common.words.why.culprits import culprits
from daemons.rapid.calls import Daemons
from daemons.rapid.page.reading.jobfacts import reasons_of
from protocol.luxi.locks import LOCK_FIELDS, LockRow, read_lock_view
from protocol.luxi.queries import Query

# jobs that one graph shows; chains may be long
MOST: Final = 60


async def lock_rows(daemons: Daemons) -> tuple[LockRow, ...]:
    """Raises: ProtocolError: luxid is of another version."""
    return read_lock_view(await daemons.luxid(Query(QueryKind.LOCK, LOCK_FIELDS)))


async def chains(daemons: Daemons, job_ids: Sequence[int]) -> Mapping[int, Sequence[Reason] | None]:
    """The reasons of these jobs, and of those that stop them, directly or through others; at most `MOST` jobs."""
    found: dict[int, Sequence[Reason] | None] = {}
    wanted = list(dict.fromkeys(job_ids))[:MOST]
    while wanted:
        found.update(await reasons_of(daemons, wanted))
        named = dict.fromkeys(culprit for job_id in wanted for culprit in culprits(found[job_id]))
        wanted = [job_id for job_id in named if job_id not in found][: MOST - len(found)]
    return found

"""Why jobs do not run: what luxid and wconfd say of them, and of the jobs that hold them, to the root of the chain.

Source: DESIGN section 6, "Explain".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from cli.connection import ask_wconfd, open_luxid
from cli.fields import Row
from cli.lockview import LockView, read_lock_view
from cli.query import query_jobs
from cli.reasonwords import Reason
from common.errors import GantryError
from common.locks import JobId
from protocol.blocking import BlockingClient
from protocol.luxi import ExplainJobs
from protocol.wconfd import ListLocksWaitingStatus

FIELDS: Final = ("id", "status", "summary", "received_ts", "start_ts", "end_ts")
# jobs that are looked at for one answer; chains may be long
_MOST: Final = 100


@attrs.frozen
class LockWait:
    """A lock that a job asks for, and who has it."""

    lock: str
    mode: str
    # `job/12`, or another owner's name
    holders: tuple[str, ...]
    # those of them that are jobs
    job_ids: tuple[int, ...]


@attrs.frozen
class Explanation:
    """What is known of one job."""

    row: Row
    # of luxid; None: the job is not live
    reasons: tuple[Reason, ...] | None
    locks: tuple[LockWait, ...]

    @property
    def culprits(self) -> Iterator[int]:
        """The jobs that hold it, by their locks or because it depends on them."""
        for reason in self.reasons or ():
            if reason.get("kind") == "dependency":
                yield reason["job_id"]
        for wait in self.locks:
            yield from wait.job_ids


def explain_jobs(job_ids: Sequence[int]) -> Mapping[int, Explanation]:
    """These jobs and all that hold them up, directly or through others.

    A wconfd that is away tells of no locks.

    Raises: as `BlockingClient.call`.
    """
    found: dict[int, Explanation] = {}
    view = _lock_view()
    with open_luxid() as client:
        wanted = list(dict.fromkeys(job_ids))
        while wanted:
            new = _explain(client, wanted, view)
            found.update(new)
            named = dict.fromkeys(job_id for each in new.values() for job_id in each.culprits)
            wanted = [job_id for job_id in named if job_id not in found][: _MOST - len(found)]
    return found


def _explain(client: BlockingClient, job_ids: Sequence[int], view: LockView) -> Mapping[int, Explanation]:
    rows = query_jobs(client, job_ids, FIELDS)
    answers = client.call(ExplainJobs(tuple(JobId(row["id"]) for row in rows)))
    return {
        row["id"]: Explanation(row, None if reasons is None else tuple(reasons), tuple(_lock_waits(row["id"], view)))
        for row, reasons in zip(rows, answers, strict=True)
    }


def _lock_view() -> LockView:
    try:
        return read_lock_view(ask_wconfd(ListLocksWaitingStatus()))
    except (GantryError, OSError):
        return LockView(())


def _lock_waits(job_id: int, view: LockView) -> Iterator[LockWait]:
    for lock, mode, holders in view.waits_for(f"job/{job_id}"):
        ids: list[Any] = [owner.ident for owner in holders if isinstance(owner.ident, int)]
        yield LockWait(str(lock), mode.value, tuple(map(str, holders)), tuple(ids))

"""Wait for changes of one job.

Source: luxid.md 8.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import orjson
import trio

from common.asciijson import ascii_json
from common.errors import JobLost, PrerequisiteError
from common.queue.jobs import Job
from daemons.luxid.core.query.jobfields import JobView, newer_entries, row_of, select_fields
from daemons.luxid.core.queue.privacy import Viewer
from daemons.luxid.files.store import Store
from daemons.luxid.jobs.jobviews import JobViews
from daemons.luxid.jobs.livejobs import LiveJobs
from protocol.luxi.changes import JobChange, WaitForJobChange
from protocol.luxi.queries import FieldValue
from protocol.peer import Peer

LONGEST_WAIT_S: Final = 89.0


@attrs.frozen
class _News:
    change: JobChange
    is_final: bool

    def differs_from(self, previous: object) -> bool:
        return bool(self.change.entries) or not _is_same(self.change.values, previous)


class Waiting:
    """The method that waits for a job; thousands may wait at once, and each is woken only by its own job.

    Args:
        catch_up: takes in changes of job files that have happened but were not reported yet.
    """

    def __init__(self, jobs: LiveJobs, store: Store, views: JobViews, catch_up: Callable[[], Awaitable[None]]) -> None:
        self._jobs = jobs
        self._store = store
        self._views = views
        self._catch_up = catch_up

    async def wait_for_job_change(self, call: WaitForJobChange, peer: Peer) -> JobChange:
        if call.job_id not in self._jobs.table:
            raise JobLost(f"there is no job {call.job_id} in the queue")
        viewer = Viewer(peer.uid, peer.role, peer.caller)
        timeout_s = max(0.0, min(call.timeout, LONGEST_WAIT_S))
        with self._jobs.bells.listen(call.job_id) as bell:
            with trio.move_on_after(timeout_s):
                while True:
                    news = await self._news(call, viewer)
                    if news.is_final or news.differs_from(call.previous):
                        return news.change
                    await bell.wait()
            return JobChange((await self._news(call, viewer)).change.values, ())

    def _look(self, call: WaitForJobChange) -> JobView:
        """Raises: JobLost: the job is gone, even from the archive."""
        job = self._jobs.table.get(call.job_id)
        if job is not None:
            return self._views.of(job)
        archived: Job | None = self._store.find_archived(call.job_id)
        if archived is None:
            raise JobLost(f"the file of job {call.job_id} cannot be read")
        return JobView(archived, is_archived=True)

    async def _news(self, call: WaitForJobChange, viewer: Viewer) -> _News:
        after = _last_known(call)
        view = self._look(call)
        may_see = viewer.may_see(view.job)
        fresh = self._views.newer_log(view.job, after) if after is not None and may_see else []
        if fresh:
            # a client that reads a line must find the job in the state that it had when it wrote the line
            await self._catch_up()
            view = self._look(call)
        view = self._views.seen_by(viewer, view)
        is_final = view.job.is_final
        try:
            values = tuple(row_of(view, select_fields(call.fields)))
        except PrerequisiteError:
            # not an error here: older clients expect this (luxid.md 8)
            return _News(JobChange((None,) * len(call.fields), ()), is_final)
        if after is None:
            return _News(JobChange(values, ()), is_final)
        entries = [entry for op in view.job.ops for entry in newer_entries(op, after)]
        first = view.job.next_log_serial
        newest = (entry for entry in fresh if entry.serial >= first)
        return _News(JobChange(values, (*entries, *newest)), is_final)


def _last_known(call: WaitForJobChange) -> float | None:
    """The log serial after which entries are new; None: no entries are wanted."""
    serial = call.previous_serial
    if serial is None:
        return 0
    if isinstance(serial, int | float) and not isinstance(serial, bool):
        return serial
    return 0 if call.fields == ("status",) else None


def _is_same(values: tuple[FieldValue, ...], previous: object) -> bool:
    # a value may have tuples on one side and lists on the other
    return list(values) == previous or _canonical(values) == _canonical(previous)


def _canonical(value: object) -> object:
    return orjson.loads(ascii_json(value))

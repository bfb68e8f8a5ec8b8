"""Broadcasts and the job table: woken only by one's own news, and nothing kept for ever."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState, LogEntry
from daemons.luxid import jobs as jobtable
from daemons.luxid.broadcasts import Broadcasts, wait_for_any
from daemons.luxid.jobs import JobTable
from tests.support.wait import PATIENCE_S

pytestmark = pytest.mark.trio


async def test_a_ring_wakes_those_who_listen_to_its_key_and_nobody_else() -> None:
    broadcasts: Broadcasts[int] = Broadcasts()
    woken: list[str] = []

    async def listen(key: int, name: str) -> None:
        with broadcasts.listen(key) as broadcast:
            await broadcast.wait()
            woken.append(name)

    async with trio.open_nursery() as nursery:
        for key, name in ((1, "a"), (1, "b"), (2, "c")):
            nursery.start_soon(listen, key, name)
        await wait_all_tasks_blocked()
        broadcasts.notify(1)
        broadcasts.notify(3)
        await wait_all_tasks_blocked()
        assert sorted(woken) == ["a", "b"]
        assert len(broadcasts) == 1
        broadcasts.notify_all()

    assert len(broadcasts) == 0


async def test_any_of_several_bells_ends_the_wait() -> None:
    broadcasts: Broadcasts[int] = Broadcasts()

    with broadcasts.listen(1) as first, broadcasts.listen(2) as second:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_any, first, second)
            await wait_all_tasks_blocked()
            broadcasts.notify(2)


async def test_a_ring_that_comes_while_the_wait_begins_ends_it_too() -> None:
    broadcasts: Broadcasts[int] = Broadcasts()
    begun = trio.Event()

    async def wait() -> None:
        begun.set()
        await wait_for_any(first, second)

    with broadcasts.listen(1) as first, broadcasts.listen(2) as second, trio.fail_after(PATIENCE_S):
        # which task of a round is next is drawn by trio: in one of so many rounds the ring is
        for _ in range(40):
            begun = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                while not begun.is_set():
                    await trio.lowlevel.checkpoint()
                broadcasts.notify(2)


def make_job(job_id: int, state: JobState, entries: int = 0) -> Job:
    log = tuple(LogEntry(serial, (1, 1), "message", "x") for serial in range(1, entries + 1))
    return Job(JobId(job_id), (JobOp({}, state=state, log=log),))


async def test_only_the_latest_final_jobs_are_kept_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobtable, "FINAL_KEPT", 2)
    read: list[int] = []

    def read_job(job_id: JobId) -> Job:
        read.append(job_id)
        return make_job(job_id, JobState.SUCCESS)

    table = JobTable(read_job)
    for job_id in range(1, 5):
        table.put(make_job(job_id, JobState.QUEUED))
    for job_id in range(1, 5):
        table.put(make_job(job_id, JobState.SUCCESS))
    table.put(make_job(5, JobState.QUEUED))

    jobs = await table.get_many(table.ids())

    assert [job.job_id for job in jobs if job] == [1, 2, 3, 4, 5]
    assert read == [1, 2]


async def test_a_final_job_with_a_long_log_is_not_kept() -> None:
    table = JobTable(lambda job_id: None)
    table.put(make_job(1, JobState.SUCCESS, entries=51))
    table.put(make_job(2, JobState.SUCCESS, entries=50))

    assert table.get(JobId(1)) is None
    assert table.get(JobId(2)) is not None
    assert table.ids() == [1, 2]

"""Changes of many jobs leave those who copy the files time to keep up."""

from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing

from common.ids import JobId
from common.lease.records import Fullness
from common.queue.jobs import Job, JobOp, set_priority
from daemons.luxid.core.copies.etcdroom import FEW, EtcdRoom
from daemons.luxid.jobs import CHANGES_AT_ONCE, Ends, Rewriting


@attrs.define
class Rig:
    """What a `Rewriting` works with: what it does with jobs, in order."""

    told: list[tuple[str, JobId]] = attrs.field(factory=list)

    @property
    def queue(self) -> "Rig":
        return self

    def unended(self, job_id: JobId) -> Job:
        return Job(job_id, (JobOp({"OP_ID": "OP_A"}),))

    def hold(self, job_id: JobId) -> None:
        self.told.append(("held", job_id))

    async def save(self, job: Job) -> None:
        self.told.append(("written", job.job_id))

    def requeue(self, job: Job) -> None:
        self.told.append(("queued", job.job_id))

    def changing(self) -> Rewriting:
        fake = cast("Any", self)
        return Rewriting(fake, fake, Ends(), fake)

    def those(self, what: str) -> set[JobId]:
        return {job_id for word, job_id in self.told if word == what}


def urgent(job: Job) -> Job:
    return set_priority(job, -10)


def jobs(count: int) -> list[JobId]:
    return [JobId(number) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("level", "count", "is_slow"),
    [(Fullness.SLOW, 2 * CHANGES_AT_ONCE, True), (Fullness.SLOW, FEW, False), (Fullness.WARN, 1000, False)],
)
def test_masses_are_slowed_down_as_submissions_are(level: Fullness, count: int, is_slow: bool) -> None:
    rig, room = Rig(), EtcdRoom(lambda: level)

    async def change() -> float:
        began = trio.current_time()
        await rig.changing().change_all(jobs(count), urgent, pause_s=room.pause_s)
        return trio.current_time() - began

    took_s = trio.run(change, clock=trio.testing.MockClock(autojump_threshold=0))

    assert rig.those("written") == rig.those("queued") == set(jobs(count))
    assert took_s == pytest.approx(2 * room.pause_s(CHANGES_AT_ONCE) if is_slow else 0.0)
    assert (took_s > 0) is is_slow


def test_none_can_start_while_the_first_wait() -> None:
    rig, all_jobs = Rig(), jobs(2 * CHANGES_AT_ONCE)

    async def change() -> None:
        await rig.changing().change_all(all_jobs, urgent, pause_s=lambda count: 5.0)

    async def cancel_after_the_first_group() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            await trio.sleep(1)
            assert (rig.those("held"), rig.those("written")) == (set(all_jobs), set())
            await trio.sleep(5)
            assert len(rig.those("written")) == CHANGES_AT_ONCE
            nursery.cancel_scope.cancel()

    trio.run(cancel_after_the_first_group, clock=trio.testing.MockClock(autojump_threshold=0))

    # the others are as they were
    assert len(rig.those("written")) == CHANGES_AT_ONCE
    assert rig.those("queued") == set(all_jobs)

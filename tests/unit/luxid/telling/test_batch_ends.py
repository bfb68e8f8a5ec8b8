"""When a batch has ended, as those who are to be told of it see it (DESIGN section 16)."""

import os
import time
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from common.durable.atomicfile import write_file
from common.featuresettings import NotifyRule
from common.ids import JobId
from common.notify import BatchEnd
from common.paths import Paths
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import BATCH_SOURCE, MOST_JOBS, Batch, JobOwner, batch_entry, batch_of, owner_entries
from daemons.luxid.core.queue.jobqueue import FinalStates
from daemons.luxid.core.telling import Occasions
from daemons.luxid.jobs import JobTable
from daemons.luxid.notifying import BatchEnds, JobNotifier
from daemons.luxid.outboxes import NoticeOutbox
from tests.support.notifying import settings_of


def member(job_id: int, place: int, size: int, state: JobState, batch_id: str = "b", uid: int | None = None) -> Job:
    """Args: uid: of the owner; None: the daemons' user."""
    owner = () if uid is None else owner_entries(JobOwner(uid, ""), 0)
    trail = [entry.to_wire() for entry in (batch_entry(Batch(batch_id, place, size), 0), *owner)]
    op = JobOp(input={"OP_ID": "OP_TEST_DUMMY", "reason": trail}, state=state)
    return Job(JobId(job_id), (op,), received_at=(1_790_000_000, 5), end_at=(1_790_000_009, 0))


@attrs.define
class Live:
    """As much of the live jobs as is asked here."""

    table: JobTable = attrs.Factory(lambda: JobTable(lambda _: None))
    ended: FinalStates = attrs.Factory(FinalStates)

    @property
    def queue(self) -> "Live":
        return self

    def put(self, *jobs: Job) -> None:
        for job in jobs:
            self.table.put(job)
            if job.next_index is None:
                self.ended.put(job.job_id, job.state)


@attrs.define
class LiveWithEvents(Live):
    notices: NoticeOutbox = attrs.Factory(NoticeOutbox)


def ends(live: Live, root: Path, serial: int) -> BatchEnds:
    return BatchEnds(Paths.under_root(root), cast(Any, live), lambda: JobId(serial))


def end_of(job: Job, found: BatchEnds) -> BatchEnd | None:
    batch = batch_of(job)
    assert batch is not None
    return found.find(job, batch)


def test_no_file_is_looked_for_beyond_the_ids_that_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client states the size of its batch: a large one must not stop luxid."""
    looked_for: list[object] = []

    def look(path: object) -> bool:
        looked_for.append(path)
        return False

    monkeypatch.setattr(os.path, "lexists", look)
    live, last = Live(), member(50_000, 40_000, MOST_JOBS, JobState.SUCCESS)
    live.put(last)

    end = end_of(last, ends(live, tmp_path, 50_003))

    assert end == BatchEnd("b", {"success": 1}, 1_790_000_000)
    assert len(looked_for) <= 3


@pytest.mark.parametrize("text", ["id=a;place=1;jobs=999999999", "id=a;place=3;jobs=2", "id=a;place=0;jobs=2"])
def test_a_batch_that_cannot_be_is_none(text: str) -> None:
    assert batch_of(Job(JobId(7), (JobOp({"OP_ID": "OP_TEST_DUMMY", "reason": [[BATCH_SOURCE, text, 1]]}),))) is None


def test_jobs_that_ended_early_stay_live_until_their_batch_is_told(tmp_path: Path) -> None:
    """An archived failure would be missing from the counts, and the batch be told as a success."""
    live, rules = Live(), {"r": NotifyRule(on=("end",), program=("/bin/true",))}
    notices = NoticeOutbox(Occasions(rules, ends(live, tmp_path, 12).find))
    failed, last = member(11, 1, 2, JobState.ERROR), member(12, 2, 2, JobState.QUEUED)
    live.put(failed, last)

    notices.ended(failed)
    assert (len(notices), notices.is_notified(JobId(11))) == (0, False)

    done = member(12, 2, 2, JobState.SUCCESS)
    live.put(done)
    notices.ended(done)
    assert (len(notices), notices.is_notified(JobId(11)), notices.is_notified(JobId(12))) == (1, False, False)

    notices.remove("notify/batch-b-1790000000/error/r")
    assert (len(notices), notices.is_notified(JobId(11)), notices.is_notified(JobId(12))) == (0, True, True)


def test_batches_that_have_the_same_id_one_after_the_other_are_each_told(tmp_path: Path) -> None:
    """Clients choose ids, such as `nightly`; a delivery of the night before must not stand for this night's."""
    live, rules = Live(), {"r": NotifyRule(on=("end",), program=("/bin/true",))}
    told = Occasions(rules, ends(live, tmp_path, 12).find)
    first = member(11, 1, 1, JobState.SUCCESS, "nightly")
    second = attrs.evolve(member(12, 1, 1, JobState.SUCCESS, "nightly"), received_at=(1_790_086_400, 0))
    live.put(first, second)

    keys = [event.key(job.job_id) for job in (first, second) for event in told.ended(job)]

    assert keys == ["notify/batch-nightly-1790000000/success/r", "notify/batch-nightly-1790086400/success/r"]


def test_a_batch_of_another_owner_with_the_same_id_neither_ends_a_batch_nor_releases_its_jobs(tmp_path: Path) -> None:
    live, rules = Live(), {"r": NotifyRule(on=("end",), program=("/bin/true",))}
    told = Occasions(rules, ends(live, tmp_path, 23).find)
    live.put(*(member(10 + place, place, 3, JobState.QUEUED, uid=1000) for place in (1, 2, 3)))
    live.put(*(member(20 + place, place, 3, JobState.QUEUED, uid=1001) for place in (1, 2, 3)))

    def end(first: int, place: int, uid: int) -> list[str]:
        done = member(first + place, place, 3, JobState.SUCCESS, uid=uid)
        live.put(done)
        return [event.key(done.job_id) for event in told.ended(done)]

    assert [end(20, 1, 1001), end(10, 1, 1000), end(10, 2, 1000)] == [[], [], []]
    assert [end(20, 2, 1001), end(20, 3, 1001)] == [[], ["notify/batch-b-1790000000/success/r"]]
    # of the other batch a job has not ended
    assert [told.holds(JobId(job_id)) for job_id in (11, 12, 21, 22)] == [True, True, False, False]
    assert end(10, 3, 1000) == ["notify/batch-b-1790000000/success/r"]


def test_a_batch_whose_id_is_used_again_is_not_ended_by_the_place_of_the_other(tmp_path: Path) -> None:
    live = Live()
    found = ends(live, tmp_path, 22)
    live.put(member(11, 1, 2, JobState.QUEUED), member(12, 2, 2, JobState.SUCCESS))
    live.put(member(21, 1, 2, JobState.SUCCESS), member(22, 2, 2, JobState.QUEUED))

    assert end_of(member(21, 1, 2, JobState.SUCCESS), found) is None
    assert end_of(member(12, 2, 2, JobState.SUCCESS), found) is None


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_batch_is_looked_at_once_when_its_jobs_are_found_at_the_start(
    has_ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each of its jobs would stop luxid for minutes with a batch of thousands."""
    size, looked_at = 300, list[JobId]()
    jobs = [member(number, number, size, JobState.SUCCESS) for number in range(1, size + 1)]
    jobs = [attrs.evolve(job, end_at=(int(time.time()), 0)) for job in jobs]
    if not has_ended:
        jobs[7] = member(8, 8, size, JobState.QUEUED)
    live = LiveWithEvents()
    live.put(*jobs)
    in_memory = JobTable.in_memory

    def look(table: JobTable, job_id: JobId) -> Job | None:
        looked_at.append(job_id)
        return in_memory(table, job_id)

    monkeypatch.setattr(JobTable, "in_memory", look)
    settings = settings_of(tmp_path)
    write_file(settings.paths.notify_since, b'{"since":0}')

    JobNotifier(settings, cast(Any, live), cast(Any, None), lambda: JobId(size)).recover(jobs)

    assert len(looked_at) <= 3 * size
    assert len(live.notices) == int(has_ended)
    assert not live.notices.is_notified(JobId(1))

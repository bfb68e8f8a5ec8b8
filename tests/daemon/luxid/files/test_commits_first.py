"""Where the cluster commits changes, nothing is made here before its commit (DESIGN section 14)."""

import errno
import functools
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from common.durable.atomicfile import FileWrite, write_files
from common.errors import InvalidRequest, Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState
from common.replica.replica import NoLongerMaster
from daemons.luxid.files.loading import load_queue
from daemons.luxid.files.queuefiles import QueueFiles, ThreadChanges
from daemons.luxid.files.store import Store, open_store
from tests.support.fakes.cluster import FakeCluster
from tests.support.fakes.copies import FakeCopies
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio
OP = JobOp({"OP_ID": "OP_TEST_DUMMY"})
FULL = Unavailable("etcd is full")
LOST = NoLongerMaster("epoch 8 has begun")


class Disk:
    """Writes for real, unless it is full for files of these names."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.full_for: set[str] = set()

    def __call__(self, writes: Sequence[FileWrite]) -> None:
        names = [write.path.name for write in writes]
        self.calls.append(names)
        if self.full_for.intersection(names):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_files(writes)


@attrs.frozen
class Place:
    store: Store
    cluster: FakeCluster
    copies: FakeCopies
    disk: Disk
    nursery: trio.Nursery
    # what `run` has ended with
    losses: list[str]

    @property
    def files(self) -> QueueFiles:
        return self.store.files

    async def add(self, *ids: int, first: Sequence[FileWrite] = ()) -> None:
        await self.store.add_jobs([Job(JobId(number), (OP,)) for number in ids], first)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    cluster, disk = FakeCluster(), Disk()
    store = open_store(paths, QueueFiles(paths, cluster, disk))
    losses: list[str] = []

    async def run() -> None:
        try:
            await store.files.run()
        except* NoLongerMaster as group:
            losses.extend(map(str, group.exceptions))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield Place(store, cluster, cluster.copies, disk, nursery, losses)
        nursery.cancel_scope.cancel()
    store.close()


async def test_a_submission_is_one_transaction_before_the_write(place: Place) -> None:
    key = FileWrite(place.store.paths.submissions / "key", b"{}")
    place.cluster.gate = trio.Event()
    place.nursery.start_soon(functools.partial(place.add, 1, 2, first=[key]))
    await wait_until_async(lambda: place.cluster.asked == 1, what="the cluster is asked")
    assert (place.disk.calls, place.copies.told) == ([], [])

    place.cluster.gate.set()
    await wait_until_async(lambda: len(place.copies.told) == 2, what="the jobs are there")

    assert place.cluster.done == [("replacing", "key", "batch-1-2", "serial", "job-1", "job-2")]
    assert place.disk.calls == [["key", "batch-1-2", "serial", "job-1", "job-2"]]
    assert place.cluster.made_here == [("key", "batch-1-2", "serial", "job-1", "job-2")]


async def test_callers_who_wait_share_a_transaction_and_a_write(place: Place) -> None:
    place.cluster.gate = trio.Event()
    async with trio.open_nursery() as callers:
        callers.start_soon(place.add, 1)
        await wait_until_async(lambda: place.cluster.asked == 1, what="the first one is under way")
        for number in range(2, 22):
            callers.start_soon(place.add, number)
        await wait_until_async(lambda: place.files.statistics().waiting == 20, what="20 callers wait")
        place.cluster.gate.set()

    assert (len(place.cluster.done), len(place.disk.calls)) == (2, 2)


@pytest.mark.parametrize("error", [FULL, LOST, InvalidRequest("it has 9 MiB, at most 8 are possible")])
async def test_what_the_cluster_refuses_is_not_made_here(place: Place, error: Unavailable) -> None:
    before = _state_of(place.store.paths)
    place.cluster.plan = [error]

    with pytest.raises(type(error), match=error.message):
        await place.add(1)

    assert (place.disk.calls, place.copies.told) == ([], [])
    assert _state_of(place.store.paths) == before


async def test_a_refused_removal_or_move_is_not_made_here(place: Place) -> None:
    await place.add(1)
    before = _state_of(place.store.paths)

    place.cluster.plan = [FULL, FULL]
    with pytest.raises(Unavailable, match="full"):
        await place.store.archive([JobId(1)])
    with pytest.raises(Unavailable, match="full"):
        await place.files.remove([place.store.paths.job_file(1)])

    assert _state_of(place.store.paths) == before
    assert len(place.copies.told) == 1


async def test_a_fence_that_holds_ends_luxid_at_once(place: Place) -> None:
    place.cluster.plan = [LOST]
    with pytest.raises(NoLongerMaster, match="luxid ends and writes nothing more"):
        await place.add(1)
    await wait_until_async(lambda: bool(place.losses), what="run ends")

    assert not place.files.is_master
    with pytest.raises(NoLongerMaster):
        await place.files.remove([place.store.paths.job_file(1)])
    assert place.cluster.asked == 1


async def test_one_change_that_is_too_large_hinders_no_other(place: Place) -> None:
    place.cluster.refused = {"job-3": InvalidRequest("too large")}
    place.cluster.gate = trio.Event()
    ends: dict[int, str] = {}

    async def add(number: int) -> None:
        try:
            await place.add(number)
        except InvalidRequest as error:
            ends[number] = error.message

    async with trio.open_nursery() as callers:
        for number in range(1, 5):
            callers.start_soon(add, number)
            await wait_until_async(lambda: place.cluster.asked == 1, what="the first one is under way")
        place.cluster.gate.set()

    assert ends == {3: "too large"}
    assert sorted(path.name for path in place.store.paths.queue.glob("job-*")) == ["job-1", "job-2", "job-4"]


async def test_what_cannot_be_written_here_is_put_back_before_its_caller_hears(place: Place) -> None:
    await place.add(1)
    place.disk.full_for, place.cluster.plan = {"job-2"}, [None, FULL, None]
    changed = Job(JobId(2), (OP,))

    with pytest.raises(Unavailable, match="no space left"):
        await place.add(2)

    assert place.cluster.done[1:] == [
        ("replacing", "serial", "job-2"),
        # after one attempt that was refused
        ("putting back", "serial", "job-2"),
        ("removing", "job-2"),
        ("removing",),
    ]
    assert place.cluster.holds["serial"] == b"1\n"
    assert place.cluster.holds["job-2"] is None

    place.disk.full_for = set()
    await place.store.save(changed)
    place.disk.full_for = {"job-2"}
    with pytest.raises(Unavailable, match="no space left"):
        await place.store.save(attrs.evolve(changed, process_id=7))
    assert place.cluster.holds["job-2"] == encode_job(changed)


async def test_of_a_group_only_what_failed_is_put_back_and_a_shared_file_is_the_last(place: Place) -> None:
    place.cluster.gate, place.disk.full_for = trio.Event(), {"job-3"}
    failed: list[int] = []

    async def add(number: int) -> None:
        try:
            await place.add(number)
        except Unavailable:
            failed.append(number)

    async with trio.open_nursery() as callers:
        callers.start_soon(add, 1)
        await wait_until_async(lambda: place.cluster.asked == 1, what="the first one is under way")
        for number in (2, 3, 4):
            callers.start_soon(add, number)
            await trio.testing.wait_all_tasks_blocked()
        place.cluster.gate.set()

    assert failed == [3]
    assert place.cluster.made_here[1:] == [("serial", "job-2"), ("serial", "job-4")]
    assert place.cluster.done[1][0] == "replacing"
    assert place.cluster.done[2] == ("putting back", "serial", "job-3")
    assert place.cluster.holds["serial"] == b"4\n"


async def test_what_was_not_moved_or_removed_is_put_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await place.add(1, 2)
    real = os.rename

    def rename(source: Any, target: Any) -> None:
        if str(source).endswith("job-2"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        with pytest.raises(Unavailable):
            await place.store.archive([JobId(1), JobId(2)])
    assert place.cluster.done[-2:] == [("moving", "job-1", "job-2"), ("putting back", "job-2")]

    await place.store.archive([JobId(2), JobId(9)])
    assert place.cluster.done[-2:] == [("moving", "job-2", "job-9"), ("putting back", "job-9")]


async def test_what_a_process_has_written_waits_until_the_cluster_has_it(place: Place) -> None:
    await place.add(1)
    ended = Job(JobId(1), (attrs.evolve(OP, state=JobState.SUCCESS),), livelock="/nowhere")
    place.store.paths.job_file(1).write_bytes(encode_job(ended))
    place.copies.told.clear()
    place.cluster.plan = [FULL, FULL, None]

    await place.files.take_up([JobId(1)], has_results=False)
    assert place.cluster.asked == 1
    await place.files.take_up([JobId(1)])
    await place.files.take_up([JobId(1)], are_dead=True)

    assert place.cluster.done[1:] == [("taking up", "job-1"), ("taking up the dead", "job-1")]
    assert place.cluster.holds["job-1"] == encode_job(ended)
    assert [what for what, *_ in place.copies.told] == ["appeared"] * 3


def _state_of(paths: Paths) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in paths.data.rglob("*") if path.is_file()}


async def test_a_start_waits_until_the_cluster_takes_the_end_of_a_half_written_batch(place: Place) -> None:
    paths = place.store.paths
    note, job_file = paths.submissions / "batch-1-2", paths.job_file(JobId(1))
    note.write_bytes(b"[]")
    job_file.write_bytes(encode_job(Job(JobId(1), (OP,))))
    place.cluster.plan = [FULL, None, FULL]

    found = await trio.to_thread.run_sync(load_queue, paths, lambda _: None, ThreadChanges(place.files))

    assert found.jobs == ()
    assert (note.exists(), job_file.exists()) == (False, False)
    assert [each for each in place.cluster.done if len(each) > 1] == [
        ("removing", "job-1"),
        ("removing", "batch-1-2"),
    ]


async def test_a_start_ends_when_another_node_is_the_master(place: Place) -> None:
    (place.store.paths.submissions / "batch-1-2").write_bytes(b"[]")
    place.cluster.plan = [LOST]

    with pytest.raises(NoLongerMaster):
        await trio.to_thread.run_sync(load_queue, place.store.paths, lambda _: None, ThreadChanges(place.files))

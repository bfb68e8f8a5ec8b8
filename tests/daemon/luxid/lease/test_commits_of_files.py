"""What etcd holds of the queue's files after each change, and after a kill at any moment of one (DESIGN section 14)."""

import errno
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import pytest
import trio

from common.durable.atomicfile import FileWrite, write_files
from common.errors import Unavailable
from common.ids import JobId
from common.lease.changes import ArchivedFile, Fate, RemovedFile, WrittenFile, decode_fate
from common.lease.deadline import Deadline
from common.lease.records import EtcdKeys, RunningJob, decode
from common.paths import Paths
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp, JobState
from common.replica.replica import NoLongerMaster
from daemons.luxid.copying.nodecopies import NodeCopies
from daemons.luxid.copying.sending import CopyRules
from daemons.luxid.files.queuefiles import QueueFiles
from daemons.luxid.files.store import Store, open_store
from daemons.luxid.replicating.etcdcopies import EtcdCopies, QueueChanges
from daemons.luxid.replicating.replaying import Laying, ReplayedChanges, read_found
from protocol.etcd.client import EtcdClient
from protocol.etcd.commits import Commits, read_dirty
from protocol.noded.files import WireNames
from tests.support.etcds.etcd import TestEtcd
from tests.support.etcds.reigns import deadline_of, reign
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio
OP = JobOp({"OP_ID": "OP_TEST_DUMMY"})
NODE = "node1.test"


class Killed(BaseException):
    """The process is gone: nothing after it is done."""


@attrs.define
class Disk:
    is_full: bool = False
    # when it kills the process that writes
    kills: str = ""
    has_killed: bool = False

    def __call__(self, writes: Sequence[FileWrite]) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.kills != "before the write":
            write_files(writes)
        if self.kills:
            self.has_killed = True
            raise Killed


@attrs.frozen
class Master:
    store: Store
    copies: EtcdCopies
    disk: Disk
    client: EtcdClient
    keys: EtcdKeys

    async def add(self, *ids: int) -> None:
        await self.store.add_jobs([job(number) for number in ids])

    async def found(self) -> Mapping[str, Fate | RunningJob]:
        """By the names below the prefixes."""
        dirty = await read_dirty(self.client, [self.keys.dirty, self.keys.running])
        return {
            name.removeprefix(self.keys.prefix): (
                decode(entry.value, RunningJob, name)
                if name.startswith(self.keys.running)
                else decode_fate(name, entry.value)
            )
            for name, entry in dirty.entries.items()
        }


def job(number: int, state: JobState = JobState.QUEUED, livelock: str | None = None) -> Job:
    return Job(JobId(number), (attrs.evolve(OP, state=state),), livelock=livelock)


def changes_of(paths: Paths, keys: EtcdKeys, epoch: int) -> QueueChanges:
    return QueueChanges(paths, keys, RunningJob(node=NODE, epoch=epoch))


@pytest.fixture
def deadline(tmp_path: Path) -> Iterator[Deadline]:
    with deadline_of(tmp_path) as (deadline, _):
        yield deadline


@contextmanager
def store_of(paths: Paths, files: QueueFiles) -> Iterator[Store]:
    store = open_store(paths, files)
    try:
        yield store
    finally:
        store.close()


@asynccontextmanager
async def master_of(paths: Paths, etcd: TestEtcd, deadline: Deadline) -> AsyncIterator[Master]:
    keys, disk = EtcdKeys(etcd.prefix), Disk()
    paths.make_folders()
    async with EtcdClient(etcd.address()) as client, trio.open_nursery() as nursery:
        fence = await reign(client, keys, NODE)
        commits = Commits(client, keys, fence, deadline, writer="luxid")
        await nursery.start(commits.run)
        nodes = NodeCopies(paths, WireNames(), CopyRules(1811, NODE, waits=False, has_lease=True))
        copies = EtcdCopies(paths, changes_of(paths, keys, fence.epoch), commits, nodes, lambda _: None)
        with store_of(paths, QueueFiles(paths, copies, disk)) as store:
            nursery.start_soon(_run, store)
            yield Master(store, copies, disk, client, keys)
            nursery.cancel_scope.cancel()


async def _run(store: Store) -> None:
    try:
        await store.files.run()
    except* (Killed, NoLongerMaster):
        pass


async def lay(paths: Paths, etcd: TestEtcd, own: str) -> ReplayedChanges:
    """What a luxid does at its start, but for its commits."""
    keys = EtcdKeys(etcd.prefix)
    async with EtcdClient(etcd.address()) as client:
        dirty = await read_dirty(client, [keys.dirty, keys.running])
    changes = changes_of(paths, keys, 2)
    return Laying(paths, changes, own, (9, 0)).lay(read_found(dirty, changes, keys))


async def test_each_change_is_in_etcd(tmp_path: Path, etcd: TestEtcd, deadline: Deadline) -> None:
    paths = Paths.under_root(tmp_path / "n1")
    async with master_of(paths, etcd, deadline) as master:
        await master.add(1, 2)
        found = await master.found()
        assert found["dirty/queue/serial"] == WrittenFile(b"2\n")
        assert found["dirty/queue/job-1"] == WrittenFile(encode_job(job(1)))
        assert isinstance(found["dirty/submissions/batch-1-2"], WrittenFile)

        started = job(1, livelock="/run/1")
        await master.store.save(started)
        found = await master.found()
        assert found["dirty/queue/job-1"] == WrittenFile(encode_job(started))
        assert found["running/1"] == RunningJob(node=NODE, epoch=1)

        ended = job(1, JobState.SUCCESS, "/run/1")
        paths.job_file(1).write_bytes(encode_job(ended))
        await master.store.files.take_up([JobId(1)])
        found = await master.found()
        assert found["dirty/queue/job-1"] == WrittenFile(encode_job(ended))
        assert "running/1" not in found

        await master.store.archive([JobId(1)])
        await master.store.files.remove([paths.job_file(2)])
        await master.store.set_drained(True)
        found = await master.found()
        assert found["dirty/queue/job-1"] == ArchivedFile(encode_job(ended))
        assert found["dirty/queue/job-2"] == RemovedFile()
        assert found["dirty/queue/drain"] == WrittenFile(b"")

        # all have the content: only the move is news
        master.copies.entries.forgotten(master.copies.entries.forgettable([JobId(1), JobId(2)], lambda *_: True))
        await master.add(3)
        master.copies.entries.forgotten(master.copies.entries.forgettable([JobId(3)], lambda *_: True))
        await master.store.archive([JobId(3)])
        assert (await master.found())["dirty/queue/job-3"] == ArchivedFile()


async def test_what_was_asked_of_a_job_is_in_etcd_until_its_end(
    tmp_path: Path, etcd: TestEtcd, deadline: Deadline
) -> None:
    paths = Paths.under_root(tmp_path / "n1")
    noted = RunningJob(node=NODE, epoch=1, ask="cancel", by="user 7")
    async with master_of(paths, etcd, deadline) as master:
        await master.add(1)
        await master.store.save(job(1, livelock="/run/1"))
        await master.copies.asking(JobId(1), "cancel", "user 7", is_orphan=False)
        assert (await master.found())["running/1"] == noted
        # it has another process
        await master.store.save(job(1, livelock="/run/2"))
        assert (await master.found())["running/1"] == noted

        paths.job_file(1).write_bytes(encode_job(job(1, JobState.SUCCESS, "/run/2")))
        await master.store.files.take_up([JobId(1)])
        await master.copies.asking(JobId(1), "kill", "user 7", is_orphan=False)
        assert "running/1" not in await master.found()

        # one that was begun under an earlier master, and waits for its next process
        await master.copies.asking(JobId(2), "kill", "user 7", is_orphan=True)
        assert (await master.found())["running/2"] == attrs.evolve(noted, ask="kill")
        await master.store.save(job(2, JobState.CANCELED, "/run/0"))
        assert "running/2" not in await master.found()


async def test_the_removal_of_an_archived_job_is_committed_if_etcd_tells_of_the_job(
    tmp_path: Path, etcd: TestEtcd, deadline: Deadline
) -> None:
    one, other = Paths.under_root(tmp_path / "n1"), Paths.under_root(tmp_path / "n2")
    other.make_folders()
    async with master_of(one, etcd, deadline) as master:
        await master.add(1, 2)
        ended = [job(number, JobState.SUCCESS) for number in (1, 2)]
        for each in ended:
            await master.store.save(each)
        await master.store.archive([JobId(1), JobId(2)])
        shutil.copytree(one.data, other.data, dirs_exist_ok=True)
        # all candidates have the first one
        entries = master.copies.entries
        entries.forgotten(entries.forgettable([JobId(1)], lambda *_: True))
        before = await master.found()

        await master.store.files.remove([one.archived_job_file(1), one.archived_job_file(2)])

        found = await master.found()
        record = WrittenFile(one.removals.read_bytes())
        assert found == {**before, "dirty/queue/job-2": RemovedFile(), "dirty/removals": record}
        assert not list(one.archive.rglob("job-*"))

    # otherwise a new master would bring it back as archived
    await lay(other, etcd, "node2.test")
    assert not other.archived_job_file(2).exists()


async def test_after_a_full_disk_etcd_holds_what_the_files_hold(
    tmp_path: Path, etcd: TestEtcd, deadline: Deadline
) -> None:
    paths = Paths.under_root(tmp_path / "n1")
    async with master_of(paths, etcd, deadline) as master:
        await master.add(1)
        master.disk.is_full = True
        for change in (master.add(2), master.store.save(job(1, livelock="/run/1"))):
            with pytest.raises(Unavailable, match="no space left"):
                await change
        found = await master.found()

    assert found["dirty/queue/serial"] == WrittenFile(b"1\n")
    assert found["dirty/queue/job-1"] == WrittenFile(encode_job(job(1)))
    assert found["dirty/queue/job-2"] == RemovedFile()
    assert "running/1" not in found


async def test_a_fence_that_holds_leaves_files_and_etcd_alone(
    tmp_path: Path, etcd: TestEtcd, deadline: Deadline
) -> None:
    paths = Paths.under_root(tmp_path / "n1")
    async with master_of(paths, etcd, deadline) as master:
        await master.add(1)
        await reign(master.client, master.keys, "node2.test")
        with pytest.raises(NoLongerMaster):
            await master.add(2)
        with pytest.raises(NoLongerMaster):
            await master.store.archive([JobId(1)])
        assert "dirty/queue/job-2" not in await master.found()

    assert paths.job_file(1).exists()
    assert not paths.job_file(2).exists()


@pytest.mark.parametrize("where", ["on the same node", "on a candidate"])
@pytest.mark.parametrize("when", ["before the write", "after the write"])
@pytest.mark.parametrize("what", ["submission", "start"])
async def test_a_kill_in_a_change_leaves_all_of_it(
    tmp_path: Path, etcd: TestEtcd, deadline: Deadline, what: str, when: str, where: str
) -> None:
    one, other = Paths.under_root(tmp_path / "n1"), Paths.under_root(tmp_path / "n2")
    other.make_folders()
    key, started = FileWrite(one.submissions / ("a" * 40), b"{}"), job(1, livelock="/run/1")
    with trio.CancelScope() as scope:
        async with master_of(one, etcd, deadline) as master:
            await master.add(1)
            shutil.copytree(one.data, other.data, dirs_exist_ok=True)
            master.disk.kills = when
            async with trio.open_nursery() as nursery:
                if what == "start":
                    nursery.start_soon(master.store.save, started)
                else:
                    nursery.start_soon(master.store.add_jobs, [job(2), job(3)], [key])
                await wait_until_async(lambda: master.disk.has_killed, what="luxid is killed")
                scope.cancel()

    is_own = where == "on the same node"
    paths, own = (one, NODE) if is_own else (other, "node2.test")
    laid = await lay(paths, etcd, own)

    if what == "submission":
        assert [paths.job_file(number).read_bytes() for number in (2, 3)] == [encode_job(job(2)), encode_job(job(3))]
        assert paths.serial_file.read_bytes() == b"3\n"
        assert (paths.submissions / key.path.name).read_bytes() == b"{}"
        assert (laid.highest_id, len(laid.fates)) == (3, 0)
        return
    first = decode_job(paths.job_file(1).read_bytes(), "")
    if is_own:
        # its process has never been let go on
        assert first == started
        assert laid.running == frozenset({JobId(1)})
    else:
        # it may have begun there
        assert first.ops[0].state is JobState.RUNNING
        assert laid.over == frozenset({JobId(1)})
        assert laid.fates.keys() == {JobId(1)}


async def test_files_are_laid_as_etcd_says(tmp_path: Path, etcd: TestEtcd, deadline: Deadline) -> None:
    one, other = Paths.under_root(tmp_path / "n1"), Paths.under_root(tmp_path / "n2")
    other.make_folders()
    async with master_of(one, etcd, deadline) as master:
        await master.add(1, 2)
        shutil.copytree(one.data, other.data, dirs_exist_ok=True)
        await master.store.save(job(1, JobState.CANCELED))
        await master.store.archive([JobId(1)])
        await master.store.files.remove([one.job_file(2)])
        await master.store.set_drained(True)
        await master.store.set_drained(False)
        await master.add(3)

    for _ in range(2):
        # it may be done again
        laid = await lay(other, etcd, "node2.test")
        assert not laid.fates
        assert not other.job_file(1).exists()
        assert not other.job_file(2).exists()
        assert not other.drain_file.exists()
        assert other.archived_job_file(1).read_bytes() == encode_job(job(1, JobState.CANCELED))
        assert other.job_file(3).read_bytes() == encode_job(job(3))

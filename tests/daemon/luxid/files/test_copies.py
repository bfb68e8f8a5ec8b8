"""What luxid writes becomes known to the other nodes before it counts (DESIGN sections 12 and 14)."""

import errno
import functools
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from common.access import Access, Role
from common.clusterinit import create_cluster
from common.durable.atomicfile import FileWrite, write_files
from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState
from common.replica.replica import Move, NoLongerMaster, Remove, Replace, Replica, TakeUp
from common.settings import LimitsSettings, LuxidSettings, Settings
from daemons.luxid import main
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.recovery import Fate
from daemons.luxid.core.submission.newjobs import JobBounds
from daemons.luxid.files.loading import FoundJob, FoundQueue, load_queue
from daemons.luxid.files.queuefiles import QueueFiles, ThreadChanges
from daemons.luxid.files.store import Store, open_store
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.handlers.submission import Acceptance, SubmissionHandlers
from daemons.luxid.parts import JobParts
from daemons.luxid.submitters import Submitters
from daemons.luxid.watching import ChangedFiles
from protocol.luxi.jobs import Accepted, SubmitJob, SubmitManyJobs
from protocol.peer import Peer
from tests.daemon.luxid.ops import dummy
from tests.support.fakes.copies import LOSS, REFUSAL, FakeCopies
from tests.support.fakes.launcher import FakeLauncher
from tests.support.starting import deaths_of, no_configuration, starter_of
from tests.support.wait import PATIENCE_S, wait_until_async

pytestmark = pytest.mark.trio
PEER = Peer(os.getpid(), os.getuid(), os.getgid(), role=Role.FULL)
OP = JobOp({"OP_ID": "OP_TEST_DUMMY"})
RUNS = Job(JobId(1), (attrs.evolve(OP, state=JobState.RUNNING),), livelock="/nowhere/job_1")
ENDED = attrs.evolve(RUNS, ops=(attrs.evolve(OP, state=JobState.SUCCESS),))
TEXT = f"this node is no longer the master: {LOSS}; luxid ends and writes nothing more here"


@attrs.frozen
class Luxid:
    parts: JobParts
    submission: SubmissionHandlers
    copies: FakeCopies
    nursery: trio.Nursery

    @property
    def store(self) -> Store:
        return self.parts.store

    async def submit(self) -> JobId:
        return await self.submission.submit_job(SubmitJob((dummy(),)), PEER)

    def knows(self, job_id: int) -> bool:
        return JobId(job_id) in self.parts.jobs.table

    def starts_jobs(self, launcher: FakeLauncher) -> None:
        self.parts.begin(self.nursery, starter_of(self.parts, launcher).start)
        self.parts.scheduler.clear("a test")


@pytest.fixture
def copies() -> FakeCopies:
    return FakeCopies()


@pytest.fixture
async def luxid(tmp_path: Path, copies: FakeCopies) -> AsyncIterator[Luxid]:
    """The parts of luxid that write, on a node that has others; no job is started."""
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths, QueueFiles(paths, copies))
    limits, access = LimitsSettings(), Access(os.getuid())
    bounds = JobBounds(limits.max_job_opcodes, limits.max_job_bytes, limits.max_locks, limits.max_opcode_depends)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_until_lost, store)
        parts = JobParts.make(store, LuxidSettings())
        parts.scheduler.obstruct("a test")
        keys, submitters = SubmissionKeys(paths, store.files, ()), Submitters(access, parts.jobs)
        acceptance = Acceptance(submitters, no_configuration)
        submission = SubmissionHandlers(
            parts.jobs, store, parts.scheduler, LuxidSettings(), keys, access, submitters, bounds, acceptance
        )
        yield Luxid(parts, submission, copies, nursery)
        nursery.cancel_scope.cancel()
    store.close()


async def _run_until_lost(store: Store) -> None:
    try:
        await store.files.run()
    except* NoLongerMaster:
        pass


# slow


async def test_a_submission_waits_for_the_others_and_nobody_else_does(luxid: Luxid) -> None:
    luxid.copies.slow = {"job-1"}
    answered: list[JobId] = []

    async def submit() -> None:
        answered.append(await luxid.submit())

    luxid.nursery.start_soon(submit)
    await wait_until_async(lambda: bool(luxid.copies.told), what="the others are told")

    assert luxid.store.paths.job_file(1).exists()
    assert (answered, luxid.knows(1)) == ([], False)
    assert await luxid.submit() == 2
    assert luxid.knows(2)

    luxid.copies.go_on.set()
    await wait_until_async(lambda: answered == [1], what="the submission is answered")
    assert luxid.knows(1)


async def test_a_job_begins_when_the_others_know_that_it_has_a_process(luxid: Luxid) -> None:
    launcher = FakeLauncher()
    await luxid.submit()
    luxid.copies.told.clear()
    luxid.copies.slow = {"job-1"}

    luxid.starts_jobs(launcher)
    await wait_until_async(lambda: bool(luxid.copies.told), what="the others are told")

    assert luxid.store.read_job(JobId(1)).livelock == "/livelocks/job_1"
    assert luxid.parts.jobs.phase(JobId(1)) is Phase.STARTING

    luxid.copies.go_on.set()
    await wait_until_async(lambda: luxid.parts.jobs.phase(JobId(1)) is Phase.RUNNING, what="the job runs")
    launcher.close()


@pytest.mark.parametrize("is_dead", [False, True], ids=["its process tells", "its process is found dead"])
async def test_nobody_hears_of_an_end_before_the_others_have_it(luxid: Luxid, is_dead: bool) -> None:
    parts = luxid.parts
    parts.scheduler.recover([FoundJob(RUNS, Fate.ALIVE)])
    luxid.copies.slow = {"job-1"}
    write_files([FileWrite(luxid.store.paths.job_file(1), encode_job(ENDED))])

    with parts.jobs.changes.listen(JobId(1)) as broadcast:
        ring = broadcast.next_notice
        if is_dead:
            luxid.nursery.start_soon(deaths_of(parts, luxid.nursery).settle, RUNS)
        else:
            files = ChangedFiles(parts.jobs, luxid.store, parts.scheduler, luxid.nursery)
            files.replaced([JobId(1)])
            luxid.nursery.start_soon(files.run)
        await wait_until_async(lambda: bool(luxid.copies.told), what="the others are told")
        await trio.testing.wait_all_tasks_blocked()
        assert not ring.is_set()
        assert parts.jobs.phase(JobId(1)) is not None

        luxid.copies.go_on.set()
        await ring.wait()

    assert luxid.copies.told == [("appeared", "job-1")]
    assert luxid.copies.contents["job-1"] == encode_job(ENDED)
    assert parts.jobs.phase(JobId(1)) is None


async def test_that_a_job_goes_on_is_told_as_no_result_and_its_end_as_one(luxid: Luxid) -> None:
    parts = luxid.parts
    parts.scheduler.recover([FoundJob(RUNS, Fate.ALIVE)])
    files = ChangedFiles(parts.jobs, luxid.store, parts.scheduler, luxid.nursery)

    for job in (attrs.evolve(RUNS, process_id=7), ENDED):
        write_files([FileWrite(luxid.store.paths.job_file(1), encode_job(job))])
        files.replaced([JobId(1)])
        await files.take_in()

    assert luxid.copies.had_results == [False, True]


# refused


async def test_what_the_others_lack_for_now_is_logged_and_counts(
    luxid: Luxid, caplog: pytest.LogCaptureFixture
) -> None:
    luxid.copies.refuses = True

    with caplog.at_level(logging.WARNING):
        assert await luxid.submit() == 1

    assert luxid.knows(1)
    assert luxid.store.files.is_master
    (record,) = caplog.records
    assert record.getMessage() == "copies.missing"
    assert REFUSAL in str(vars(record))


async def test_a_refused_copy_takes_no_job_back(luxid: Luxid) -> None:
    luxid.copies.refuses = True

    taken = await luxid.submission.submit_many_jobs(SubmitManyJobs(((dummy(),),) * 3), PEER)
    assert taken == tuple(Accepted(JobId(number)) for number in (1, 2, 3))
    assert sorted(path.name for path in luxid.store.paths.queue.glob("job-*")) == ["job-1", "job-2", "job-3"]


# no longer master


async def test_a_submission_is_refused_in_words_when_another_node_is_the_master(luxid: Luxid) -> None:
    luxid.copies.is_master = False

    with pytest.raises(NoLongerMaster, match=TEXT):
        await luxid.submit()

    assert not luxid.knows(1)
    assert not luxid.store.files.is_master


async def test_nothing_is_written_or_told_after_that(luxid: Luxid) -> None:
    await luxid.submit()
    luxid.copies.is_master = False
    with pytest.raises(NoLongerMaster):
        await luxid.submit()
    before = _state_of(luxid.store.paths)
    told = list(luxid.copies.told)

    for change in (
        luxid.submit(),
        luxid.store.save(RUNS),
        luxid.store.archive([JobId(1)]),
        luxid.store.set_damaged_aside(JobId(1)),
        luxid.store.set_drained(True),
        luxid.store.files.take_up([JobId(1)]),
        luxid.store.files.discard([luxid.store.paths.job_file(1)]),
    ):
        with pytest.raises(NoLongerMaster, match=TEXT):
            await change

    assert _state_of(luxid.store.paths) == before
    assert luxid.copies.told == told


async def test_what_waits_for_the_disk_by_then_is_not_written(tmp_path: Path, copies: FakeCopies) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    may_write, written = threading.Event(), list[str]()

    def write(writes: Sequence[FileWrite]) -> None:
        written.extend(each.path.name for each in writes)
        if "second" in written:
            assert may_write.wait(PATIENCE_S)

    files = QueueFiles(paths, copies, write)
    copies.is_master, copies.slow = False, {"first"}
    ends: dict[str, str] = {}

    async def until_lost(name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except* (NoLongerMaster, OSError) as group:
            ends[name] = str(group.exceptions[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(until_lost, "run", files.run)
        for name, has_come in (
            ("first", lambda: copies.told),
            ("second", lambda: "second" in written),
            ("third", lambda: files.statistics().waiting == 1),
        ):
            nursery.start_soon(until_lost, name, functools.partial(files.replace, [FileWrite(paths.queue / name, b"")]))
            await wait_until_async(has_come, what=f"the {name} one has come so far")
        copies.go_on.set()
        await wait_until_async(lambda: "first" in ends, what="the loss is known")
        may_write.set()

    assert written == ["first", "second"]
    assert set(ends) == {"run", "first", "second", "third"}
    assert TEXT in ends["run"]


@pytest.mark.parametrize("when", ["while the queue is read", "while it serves"])
async def test_luxid_ends_and_says_why(tmp_path: Path, copies: FakeCopies, when: str) -> None:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    copies.is_master = False
    if when == "while it serves":
        # a job that waits for one that is nowhere: luxid ends it
        waits = Job(JobId(2), (JobOp({"OP_ID": "OP_TEST_DUMMY", "depends": [[1, ["success"]]]}),))
        paths.job_file(2).write_bytes(encode_job(waits))
    else:
        paths.job_file(2).write_bytes(b"no job")

    with trio.fail_after(PATIENCE_S), _raises_loss():
        await main.serve(Settings(paths), copies)

    assert len(copies.told) == 1


def _raises_loss() -> pytest.RaisesGroup[NoLongerMaster]:
    return pytest.RaisesGroup(pytest.RaisesExc(NoLongerMaster, match=TEXT), flatten_subgroups=True)


def _state_of(paths: Paths) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in paths.data.rglob("*") if path.is_file()}


# what is told


async def test_each_change_of_a_file_is_told_as_one(luxid: Luxid) -> None:
    store, told = luxid.store, luxid.copies.told
    key = FileWrite(store.paths.submissions / "key", b"{}")

    await store.add_jobs([Job(JobId(number), (OP,)) for number in (1, 2)], [key])
    assert told == [("replaced", "key", "batch-1-2", "serial", "job-1", "job-2"), ("removed", "batch-1-2")]
    assert luxid.copies.contents["serial"] == b"2\n"

    told.clear()
    await store.save(ENDED)
    await store.archive([JobId(1), JobId(9)])
    await store.set_damaged_aside(JobId(2))
    await store.set_drained(True)
    await store.set_drained(False)
    assert told == [
        ("replaced", "job-1"),
        ("renamed", "job-1", "job-1"),
        ("renamed", "job-2", "job-2"),
        ("replaced", "drain"),
        ("removed", "drain"),
    ]


async def test_of_a_large_submission_the_others_get_all_or_nothing(
    luxid: Luxid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemons.luxid.files.store._JOBS_AT_ONCE", 2)

    await luxid.store.add_jobs([Job(JobId(number), (OP,)) for number in range(1, 6)])

    assert luxid.copies.told[0] == ("replaced", "batch-1-5", "serial", *(f"job-{number}" for number in range(1, 6)))


async def test_what_was_moved_before_an_error_is_told(luxid: Luxid, monkeypatch: pytest.MonkeyPatch) -> None:
    await luxid.store.add_jobs([Job(JobId(number), (OP,)) for number in (1, 2)])
    luxid.copies.told.clear()
    real = os.rename

    def rename(source: Any, target: Any) -> None:
        if str(source).endswith("job-2"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(Unavailable, match="the archive cannot be written"):
        await luxid.store.archive([JobId(1), JobId(2)])

    assert luxid.copies.told == [("renamed", "job-1", "job-1")]


async def test_a_batch_that_was_cut_off_is_told_before_its_note_goes(tmp_path: Path, copies: FakeCopies) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    (paths.submissions / "batch-1-2").write_bytes(b'["queue/../submissions-key"]')
    paths.job_file(1).write_bytes(encode_job(Job(JobId(1), (OP,))))
    paths.job_file(7).write_bytes(b"no job")

    changes = ThreadChanges(QueueFiles(paths, copies))
    found = await trio.to_thread.run_sync(load_queue, paths, lambda _: None, changes)

    # no record names jobs of which nobody has been told
    assert copies.told == [
        ("renamed", "job-7", "job-7"),
        ("removed", "job-1"),
        ("removed", "submissions-key"),
        ("removed", "batch-1-2"),
    ]
    assert found.jobs == ()


async def test_other_nodes_are_told_the_serial_behind_a_gap(tmp_path: Path, copies: FakeCopies) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths, QueueFiles(paths, copies))

    # under a lease, a node that was compared before would have an older copy until the next job comes
    await main._settle_ids(Settings(paths), store, FoundQueue((), JobId(7), has_lost_ids=True))

    assert copies.told == [("appeared", "serial")]
    assert int(copies.contents["serial"]) == store.serial > 7
    store.close()


async def test_without_other_nodes_nothing_is_waited_for(tmp_path: Path) -> None:
    none, path = Replica(), tmp_path / "file"

    for change in (Replace([FileWrite(path, b"")]), TakeUp([path]), Move([(path, path)]), Remove([path])):
        for step in (none.before(change), none.take_back(change), none.after(change)):
            with pytest.raises(StopIteration):
                step.send(None)

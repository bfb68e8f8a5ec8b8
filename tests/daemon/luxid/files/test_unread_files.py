"""Readers that fail some times: what only was read decides (DESIGN section 11)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp, JobState
from common.settings import LuxidSettings
from common.system import shortages
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.recovery import Fate
from daemons.luxid.files.loading import FoundJob
from daemons.luxid.files.store import Store, open_store
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.parts import JobParts
from daemons.luxid.processes.deaths import JobProcessDeaths
from daemons.luxid.scheduler import Scheduler
from daemons.luxid.watching import ChangedFiles
from tests.support.fakes.launcher import FakeLauncher
from tests.support.starting import deaths_of, starter_of

pytestmark = pytest.mark.trio
JOB, DEPENDENT = JobId(1), JobId(2)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortages, "FIRST_PAUSE_S", 0.001)


class Flaky:
    """A function that raises Unavailable the first `failures` times."""

    def __init__(self, real: Callable[..., object], failures: int) -> None:
        self.real = real
        self.failures = failures
        self.calls = 0

    def __call__(self, *args: object) -> object:
        self.calls += 1
        if self.calls <= self.failures:
            raise Unavailable("too many open files")
        return self.real(*args)


@attrs.frozen
class Luxid:
    store: Store
    jobs: LiveJobs
    scheduler: Scheduler
    deaths: JobProcessDeaths
    files: ChangedFiles


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[Luxid]:
    """The parts of luxid with a job that has a process, which is dead."""
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.files.run)
        made = JobParts.make(store, LuxidSettings())
        deaths = deaths_of(made, nursery)
        made.scheduler.recover([FoundJob(job_in(JobState.RUNNING), Fate.ALIVE)])
        made.begin(nursery, starter_of(made, FakeLauncher()).start)
        made.scheduler.obstruct("a test")
        files = ChangedFiles(made.jobs, store, made.scheduler, nursery)
        nursery.start_soon(files.run)
        nursery.start_soon(deaths.run)
        yield Luxid(store, made.jobs, made.scheduler, deaths, files)
        nursery.cancel_scope.cancel()
    store.close()


def job_in(state: JobState, job_id: JobId = JOB) -> Job:
    return Job(job_id, (JobOp({"OP_ID": "OP_TEST_DUMMY"}, state=state),), livelock="/nowhere/job_1")


def dependent() -> Job:
    return Job(DEPENDENT, (JobOp({"OP_ID": "OP_TEST_DUMMY", "depends": [[JOB, ["success"]]]}),))


async def until_phase(parts: Luxid, job_id: JobId, phase: Phase | None) -> None:
    with parts.jobs.changes.listen(job_id) as broadcast:
        while parts.jobs.phase(job_id) is not phase:
            await broadcast.wait()


async def test_a_dead_job_ends_as_its_file_says_however_often_reading_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as parts:
        await parts.store.save(job_in(JobState.SUCCESS))
        before = parts.store.paths.job_file(JOB).read_bytes()
        flaky = Flaky(parts.store.read_job, 4)
        monkeypatch.setattr(parts.store, "read_job", flaky)

        await parts.deaths.settle(parts.jobs.unended(JOB))

        assert flaky.calls == 5
        assert parts.jobs.phase(JOB) is None
        assert parts.jobs.table.get(JOB) == job_in(JobState.SUCCESS)
        assert parts.store.paths.job_file(JOB).read_bytes() == before


@pytest.mark.parametrize("content", [None, b'{"id": 1, "ops"'], ids=["gone", "damaged"])
async def test_a_dead_job_of_which_nobody_knows_what_it_did_is_never_run_again(
    tmp_path: Path, content: bytes | None
) -> None:
    async with running(tmp_path) as parts:
        paths = parts.store.paths
        if content is not None:
            paths.job_file(JOB).write_bytes(content)

        await parts.deaths.settle(parts.jobs.unended(JOB))

        assert parts.jobs.phase(JOB) is None
        ended = parts.store.read_job(JOB)
        assert [op.state for op in ended.ops] == [JobState.ERROR]
        assert "what it did is not known" in str(ended.ops[0].result)
        assert [path.read_bytes() for path in paths.damaged.iterdir()] == ([] if content is None else [content])


async def test_what_a_dead_process_has_renamed_is_synced_before_its_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as parts:
        await parts.store.save(job_in(JobState.SUCCESS))
        phases: list[Phase | None] = []
        sync = parts.store.files.folder.sync

        async def note_and_sync() -> None:
            phases.append(parts.jobs.phase(JOB))
            await sync()

        monkeypatch.setattr(parts.store.files.folder, "sync", note_and_sync)

        await parts.deaths.settle(parts.jobs.unended(JOB))

        assert (phases, parts.jobs.phase(JOB)) == ([Phase.HELD], None)


async def test_log_lines_of_a_dead_job_are_not_lost_to_an_error_of_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as parts:
        await parts.store.save(job_in(JobState.RUNNING))
        path = parts.store.paths.job_log(JOB)
        path.write_bytes(b'[0,1,[5,0],"message","the last word"]\n')
        flaky = Flaky(parts.store.logs.add_all, 3)
        monkeypatch.setattr(parts.store.logs, "add_all", flaky)

        await parts.deaths.settle(parts.jobs.unended(JOB))

        job = parts.jobs.table.get(JOB)
        assert job is not None
        assert [entry.message for entry in job.ops[0].log] == ["the last word"]


async def test_a_changed_file_that_cannot_be_read_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as parts:
        await parts.store.save(job_in(JobState.SUCCESS))
        flaky = Flaky(parts.store.read_job, 3)
        monkeypatch.setattr(parts.store, "read_job", flaky)

        parts.files.replaced([JOB])
        parts.files.replaced([JOB])
        assert parts.jobs.phase(JOB) is Phase.RUNNING

        await until_phase(parts, JOB, None)
        # three that fail, one that tells that it can be read, and then as any other change
        assert flaky.calls == 5


async def test_a_dependent_of_an_archived_success_outlives_errors_of_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as parts:
        store = parts.store
        await store.save(job_in(JobState.SUCCESS))
        parts.files.replaced([JOB])
        # a job that runs, as far as is known, is never archived
        await until_phase(parts, JOB, None)
        await store.archive([JOB])
        parts.scheduler.archived([JOB])
        flaky = Flaky(store.find_archived, 4)
        monkeypatch.setattr(store, "find_archived", flaky)
        await store.save(dependent())

        parts.scheduler.add([dependent()])

        assert parts.jobs.phase(DEPENDENT) is Phase.BLOCKED
        await until_phase(parts, DEPENDENT, Phase.READY)
        assert flaky.calls == 5

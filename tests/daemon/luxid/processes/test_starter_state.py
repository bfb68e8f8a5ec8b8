"""What luxid remembers of a job's processes goes when the job ends."""

import errno
import os
import socket
from pathlib import Path

import attrs
import pytest
import trio

from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp, OpEvent, apply_event
from common.settings import LuxidSettings
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.recovery import Fate
from daemons.luxid.files.loading import FoundJob
from daemons.luxid.files.store import Store, open_store
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.parts import JobParts
from daemons.luxid.processes.killing import Kills
from daemons.luxid.processes.launcher import ForkServerClient
from daemons.luxid.processes.starting import BACK_OFF
from daemons.luxid.scheduler import Scheduler
from tests.support.fakes.launcher import FakeLauncher
from tests.support.starting import starter_of
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio


@attrs.frozen
class Luxid:
    store: Store
    jobs: LiveJobs
    scheduler: Scheduler
    launcher: FakeLauncher


async def run_parts(tmp_path: Path, nursery: trio.Nursery, timeout_s: float = 10.0) -> Luxid:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    await nursery.start(store.files.run)
    parts, launcher = JobParts.make(store, LuxidSettings()), FakeLauncher()
    parts.begin(nursery, starter_of(parts, launcher, timeout_s).start)
    return Luxid(store, parts.jobs, parts.scheduler, launcher)


def new_job() -> Job:
    return Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DUMMY"}),))


def has_ended(parts: Luxid) -> bool:
    return parts.jobs.phase(JobId(1)) is None


async def until_phase(parts: Luxid, phase: Phase) -> None:
    with parts.jobs.changes.listen(JobId(1)) as broadcast:
        while parts.jobs.phase(JobId(1)) is not phase:
            await broadcast.wait()


async def test_an_ended_job_leaves_nothing_behind(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        parts = await run_parts(tmp_path, nursery)
        parts.scheduler.add([new_job()])
        await until_phase(parts, Phase.RUNNING)
        record = parts.jobs.processes.find(JobId(1))
        assert record is not None
        assert (record.livelock, record.child_pid) == ("/livelocks/job_1", 999_999)

        job = parts.jobs.unended(JobId(1))
        assert (job.livelock, job.process_id) == ("/livelocks/job_1", 999_999)
        ended = attrs.evolve(job, ops=(apply_event(job.ops[0], OpEvent.FAILED, (1, 1)),))
        parts.scheduler.ended(ended)

        assert len(parts.jobs.processes) == 0
        assert parts.jobs.phase(JobId(1)) is None
        nursery.cancel_scope.cancel()
    parts.launcher.close()
    parts.store.close()


async def test_a_launcher_that_is_away_costs_the_job_nothing(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        parts = await run_parts(tmp_path, nursery)
        parts.launcher.is_away = True
        parts.scheduler.add([new_job()])
        await wait_until_async(lambda: parts.launcher.starts > 3 or has_ended(parts), what="several attempts")
        assert not has_ended(parts)
        assert not parts.store.paths.job_file(1).exists()

        parts.launcher.is_away = False
        await until_phase(parts, Phase.RUNNING)
        nursery.cancel_scope.cancel()
    parts.launcher.close()
    parts.store.close()


@pytest.mark.parametrize("sends", [None, b"error: its livelock cannot be made: no space left on device"])
async def test_a_process_that_is_slow_or_cannot_start_is_no_attempt_of_its_job(
    tmp_path: Path, sends: bytes | None
) -> None:
    async with trio.open_nursery() as nursery:
        parts = await run_parts(tmp_path, nursery, timeout_s=0.01)
        parts.launcher.sends = sends
        parts.scheduler.add([new_job()])
        await wait_until_async(lambda: parts.launcher.starts > 3, what="several starts")
        await wait_until_async(
            lambda: any(BACK_OFF in obstacle for obstacle in parts.jobs.obstacles), what="it is told"
        )

        parts.launcher.sends = b"/livelocks/job_1"
        await until_phase(parts, Phase.RUNNING)
        nursery.cancel_scope.cancel()
    parts.launcher.close()
    parts.store.close()


async def test_a_start_for_want_of_descriptors_is_no_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_socket(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    paths = Paths.under_root(tmp_path)
    client = ForkServerClient(paths)
    client._sock = socket.socket()
    monkeypatch.setattr("socket.socketpair", no_socket)

    with pytest.raises(Unavailable, match="too many open files"):
        await client.start(JobId(1))
    client._sock.close()


@pytest.mark.parametrize("sends", [b"relative/path", b"/with\xff", b"x" * 100_000])
async def test_a_process_that_sends_nonsense_is_given_up_after_three_times(tmp_path: Path, sends: bytes) -> None:
    async with trio.open_nursery() as nursery:
        parts = await run_parts(tmp_path, nursery)
        parts.launcher.sends = sends
        with parts.jobs.changes.listen(JobId(1)) as broadcast:
            parts.scheduler.add([new_job()])
            while parts.jobs.phase(JobId(1)) is not None:
                await broadcast.wait()

        assert parts.launcher.starts == 3
        assert parts.store.read_job(JobId(1)).ops[0].state.value == "error"
        nursery.cancel_scope.cancel()
    parts.launcher.close()
    parts.store.close()


async def test_a_job_that_was_to_be_killed_between_two_opcodes_is_canceled_and_not_started(tmp_path: Path) -> None:
    paths, launcher = Paths.under_root(tmp_path), FakeLauncher()
    paths.make_folders()
    paths.kill_message(1).touch()
    store = open_store(paths)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.files.run)
        parts = JobParts.make(store, LuxidSettings())
        kills = Kills(parts.jobs, parts.rewriting, nursery, 0.0, is_external=False)
        parts.scheduler.recover([FoundJob(new_job(), Fate.CONTINUE)])

        kills.recover()
        parts.begin(nursery, starter_of(parts, launcher).start)
        with parts.jobs.changes.listen(JobId(1)) as broadcast:
            while parts.jobs.phase(JobId(1)) is not None:
                await broadcast.wait()

        assert store.read_job(JobId(1)).ops[0].state.value == "canceled"
        assert launcher.starts == 0
        assert not paths.kill_message(1).exists()
        nursery.cancel_scope.cancel()
    launcher.close()
    store.close()

"""A job whose process died while its command ran on a node gets another process (DESIGN sections 13 and 14)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp, JobState, OpEvent, apply_event, replace_op
from common.settings import LuxidSettings
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.recovery import Fate, RecoveryRequest
from daemons.luxid.files.loading import FoundJob, load_queue
from daemons.luxid.files.store import open_store
from daemons.luxid.parts import JobParts
from daemons.luxid.processes.deaths import JobProcessDeaths
from daemons.luxid.processes.killing import Canceller, Kills
from daemons.luxid.processes.starting import TakeUps
from tests.support.fakes.launcher import FakeLauncher
from tests.support.starting import deaths_of, starter_of
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio
ID, OTHER = JobId(1), JobId(2)
COMMAND = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": "web1"}
ROOT = 0


@attrs.frozen
class Luxid:
    parts: JobParts
    launcher: FakeLauncher
    deaths: JobProcessDeaths
    kills: Kills
    canceller: Canceller

    def job(self) -> Job:
        return self.parts.store.read_job(ID)

    def phase(self) -> Phase | None:
        return self.parts.jobs.phase(ID)

    async def until(self, phase: Phase | None) -> None:
        with self.parts.jobs.changes.listen(ID) as broadcast:
            while self.phase() is not phase:
                await broadcast.wait()

    async def run_command(self) -> None:
        """Let the process, which has just been started, say that its command runs."""
        job = attrs.evolve(self.parts.jobs.unended(ID), livelock=f"/livelocks/job_{self.launcher.starts}")
        op = job.ops[0]
        if op.state is JobState.QUEUED:
            job = replace_op(job, 0, apply_event(op, OpEvent.LOCKED, (1, 1)))
        await self.parts.store.save(job)
        self.parts.scheduler.advanced(job)

    async def die(self) -> None:
        """Let the process of the job be found dead."""
        await self.deaths.settle(self.parts.jobs.unended(ID))

    async def start(self, **values: object) -> None:
        self.parts.scheduler.add([Job(ID, (JobOp({**COMMAND, **values}), JobOp({"OP_ID": "OP_TEST_DUMMY"})))])
        await self.until(Phase.RUNNING)
        await self.run_command()


@asynccontextmanager
async def luxid_in(folder: Path, slots: int = 20, found: tuple[FoundJob, ...] = ()) -> AsyncIterator[Luxid]:
    paths = Paths.under_root(folder)
    paths.make_folders()
    store = open_store(paths)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(store.files.run)
            parts = JobParts.make(store, LuxidSettings(max_running_jobs=slots), takes_up=True)
            launcher = FakeLauncher()
            starter, deaths = starter_of(parts, launcher), deaths_of(parts, nursery)
            take_ups = TakeUps(parts.jobs, store, starter, parts.rewriting)
            kills = Kills(parts.jobs, parts.rewriting, nursery, 30.0, is_external=False)
            canceller = Canceller(parts.jobs, store, parts.views, parts.rewriting, kills, is_external=False)
            dead = parts.scheduler.recover(found)
            kills.recover()
            for job in dead:
                nursery.start_soon(deaths.settle, job)
            parts.begin(nursery, starter.start, take_ups.take_up)
            yield Luxid(parts, launcher, deaths, kills, canceller)
            launcher.close()
            nursery.cancel_scope.cancel()
    finally:
        store.close()


async def test_another_process_gets_the_job_which_runs_all_the_time(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        await luxid.start()
        luxid.launcher.sends = b"/livelocks/job_1_again"

        await luxid.die()
        assert luxid.parts.views.state(ID) is JobState.RUNNING
        await luxid.until(Phase.RUNNING)

        assert luxid.launcher.starts == 2
        job = luxid.parts.jobs.unended(ID)
        assert (job.state, job.livelock) == (JobState.RUNNING, "/livelocks/job_1_again")


async def test_it_keeps_its_place_among_the_running_jobs(tmp_path: Path) -> None:
    async with luxid_in(tmp_path, slots=1) as luxid:
        await luxid.start()
        luxid.parts.scheduler.add([Job(OTHER, (JobOp({"OP_ID": "OP_TEST_DUMMY"}),))])
        luxid.launcher.is_away = True

        await luxid.die()
        assert luxid.phase() is Phase.ORPHANED
        luxid.parts.scheduler.pump()

        assert luxid.parts.jobs.phase(OTHER) is Phase.READY
        assert luxid.parts.jobs.queue.free_slots() == 0


async def test_an_obstacle_to_starts_does_not_delay_it(tmp_path: Path) -> None:
    async with luxid_in(tmp_path, slots=1) as luxid:
        await luxid.start()
        luxid.parts.scheduler.obstruct("the rules are not known")
        luxid.parts.scheduler.limit_running(0)

        await luxid.die()
        await luxid.until(Phase.RUNNING)

        assert luxid.launcher.starts == 2


async def test_processes_that_die_in_a_row_are_replaced_after_growing_pauses(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with luxid_in(tmp_path) as luxid:
        await luxid.start()
        pauses = []
        for _ in range(4):
            died_s = trio.current_time()
            await luxid.die()
            await luxid.until(Phase.RUNNING)
            pauses.append(round(trio.current_time() - died_s, 3))

        assert pauses == [0, 1, 2, 4]


async def test_a_launcher_that_is_away_neither_ends_the_job_nor_delays_others(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        await luxid.start()
        luxid.launcher.is_away = True
        await luxid.die()
        record = luxid.parts.jobs.processes.record(ID)
        with luxid.parts.jobs.changes.listen(ID) as broadcast:
            while record.failures < 3:
                await broadcast.wait()
        assert not luxid.parts.jobs.obstacles

        luxid.launcher.is_away = False
        await luxid.until(Phase.RUNNING)

        assert luxid.job().state is JobState.RUNNING


async def test_a_kill_ends_the_job_while_it_has_no_process(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        await luxid.start()
        luxid.launcher.is_away = True
        # four seconds until the next attempt
        luxid.parts.jobs.processes.record(ID).short_lives = 3
        await luxid.die()

        is_done, text = await luxid.canceller.cancel(ID, kill=True, caller=ROOT)
        assert (is_done, text) == (True, "job 1 is being killed")
        assert luxid.parts.views.state(ID) is JobState.CANCELING
        await luxid.until(None)

        assert [op.state for op in luxid.job().ops] == [JobState.CANCELED, JobState.CANCELED]
        assert luxid.launcher.starts == 1
        assert not luxid.parts.store.paths.kill_message(ID).exists()
        [entry] = luxid.job().ops[0].log
        assert "may still run on node 'web1'" in str(entry.message)


async def test_a_cancel_leaves_the_command_and_is_passed_on(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        await luxid.start()
        luxid.launcher.is_away = True
        await luxid.die()

        is_done, text = await luxid.canceller.cancel(ID, kill=False, caller=ROOT)

        assert not is_done
        assert "its opcode ends by itself" in text
        assert luxid.parts.jobs.processes.ask(ID) is RecoveryRequest.CANCEL
        assert luxid.phase() is not None


async def test_a_job_that_its_file_says_has_ended_is_not_taken_up(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        await luxid.start()
        job = luxid.job()
        for index in (0, 1):
            job = replace_op(job, index, apply_event(job.ops[index], OpEvent.FAILED, (2, 2)))
        await luxid.parts.store.save(job)

        await luxid.die()

        assert (luxid.phase(), luxid.launcher.starts) == (None, 1)


async def test_a_job_between_its_opcodes_is_queued_again(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        await luxid.start()
        luxid.parts.scheduler.limit_running(0)
        job = luxid.job()
        await luxid.parts.store.save(replace_op(job, 0, apply_event(job.ops[0], OpEvent.SUCCEEDED, (2, 2))))

        await luxid.die()

        assert (luxid.phase(), luxid.launcher.starts) == (Phase.READY, 1)


async def test_the_next_luxid_takes_up_what_it_finds_and_knows_who_was_to_be_canceled(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        await luxid.start()
        luxid.parts.jobs.processes.note_asker(ID, ROOT, kill=False)

    found = load_queue(Paths.under_root(tmp_path), takes_up=True).jobs
    assert [each.fate for each in found] == [Fate.TAKE_UP]
    async with luxid_in(tmp_path, found=found) as luxid:
        await wait_until_async(lambda: luxid.launcher.starts > 0, what="a process is started")
        await luxid.until(Phase.RUNNING)

        assert luxid.launcher.starts == 1
        assert luxid.parts.jobs.processes.ask(ID) is RecoveryRequest.CANCEL


async def test_the_next_luxid_ends_what_was_to_be_killed(tmp_path: Path) -> None:
    async with luxid_in(tmp_path) as luxid:
        await luxid.start()
        luxid.parts.jobs.processes.ask_kill(ID)

    found = load_queue(Paths.under_root(tmp_path), takes_up=True).jobs
    async with luxid_in(tmp_path, found=found) as luxid:
        await luxid.until(None)

        assert luxid.launcher.starts == 0
        assert luxid.job().state is JobState.CANCELED

"""Large submissions in slices: others have their turn between, and it is one submission all the same (DESIGN 6, 11)."""

import gc
import itertools
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from common.access import Access, Role
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job
from common.settings import LimitsSettings, LuxidSettings
from common.wire import structure, unstructure
from daemons.luxid.core.submission import newjobs as core
from daemons.luxid.core.submission.newjobs import JobBounds
from daemons.luxid.files import store as store_module
from daemons.luxid.files import submissionkeys
from daemons.luxid.files.store import Store, open_store
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.handlers.submission import Acceptance, SubmissionHandlers
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.parts import JobParts
from daemons.luxid.submitters import Submitters
from protocol.luxi.jobs import JobInput, SubmitJob, SubmitManyJobs
from protocol.peer import Peer
from tests.daemon.luxid.ops import dummy
from tests.support.fakes.launcher import FakeLauncher
from tests.support.starting import no_configuration

pytestmark = pytest.mark.trio
# units of work: a slice, and the step that fills it
MOST = 250
COUNT = 2500


class Work(trio.abc.Instrument):
    """Counts calls, and the most of them between two checkpoints of a task."""

    def __init__(self) -> None:
        self.total: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self._now: dict[str, int] = {}

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._now = {}

    def counting(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self.total[name] = self.total.get(name, 0) + 1
            self._now[name] = self._now.get(name, 0) + 1
            self.most[name] = max(self.most.get(name, 0), self._now[name])
            return call(*args, **named)

        return counted


@attrs.frozen
class Luxid:
    submission: SubmissionHandlers
    jobs: LiveJobs
    store: Store

    async def submit(self, jobs: tuple[JobInput, ...], key: str | None = None) -> list[Any]:
        wire: list[Any] = structure(
            unstructure(await self.submission.submit_many_jobs(SubmitManyJobs(jobs, key), PEER)), list[Any]
        )
        return wire

    async def submit_one(self) -> JobId:
        return await self.submission.submit_job(SubmitJob((dummy(),)), PEER)


PEER = Peer(os.getpid(), os.getuid(), os.getgid(), role=Role.FULL)


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Luxid]:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    limits, access = LimitsSettings(), Access(os.getuid())
    bounds = JobBounds(limits.max_job_opcodes, limits.max_job_bytes, limits.max_locks, limits.max_opcode_depends)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.files.run)
        made = JobParts.make(store, LuxidSettings())
        made.scheduler.obstruct("a test")
        launcher = FakeLauncher()

        async def start(job_id: JobId) -> None:
            await launcher.start(job_id)

        made.begin(nursery, start)
        submitters = Submitters(access, made.jobs)
        keys = SubmissionKeys(paths, store.files, ())
        acceptance = Acceptance(submitters, no_configuration)
        submission = SubmissionHandlers(
            made.jobs, store, made.scheduler, LuxidSettings(), keys, access, submitters, bounds, acceptance
        )
        yield Luxid(submission, made.jobs, store)
        nursery.cancel_scope.cancel()
    store.close()


def counted(monkeypatch: pytest.MonkeyPatch, parts: Luxid) -> Work:
    work = Work()
    for module, name in ((core, "parse_opcode"), (core, "write_opcode"), (submissionkeys, "write_opcode")):
        monkeypatch.setattr(module, name, work.counting(f"{module.__name__}.{name}", getattr(module, name)))
    monkeypatch.setattr(store_module, "encode_job", work.counting("encode", encode_job))
    monkeypatch.setattr(parts.jobs.queue, "add", work.counting("add", parts.jobs.queue.add))
    trio.lowlevel.add_instrument(work)
    return work


async def test_others_have_their_turn_in_each_part_of_a_large_submission(
    parts: Luxid, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = counted(monkeypatch, parts)

    answers = await parts.submit(((dummy(),),) * COUNT, "key")

    assert answers == [[True, number] for number in range(1, COUNT + 1)]
    assert set(work.total.values()) == {COUNT}
    assert len(work.most) == 5
    assert max(work.most.values()) <= MOST


async def test_others_have_their_turn_within_a_job_of_many_opcodes(
    parts: Luxid, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = counted(monkeypatch, parts)

    await parts.submit(((dummy(),) * 1000,), "key")

    assert {name: work.most[name] <= MOST for name in work.most if name.endswith("opcode")} == dict.fromkeys(
        (f"{core.__name__}.parse_opcode", f"{core.__name__}.write_opcode", f"{submissionkeys.__name__}.write_opcode"),
        True,
    )


async def test_a_small_submission_overtakes_a_large_one_and_ids_stay_consecutive(parts: Luxid) -> None:
    order: list[str] = []
    answers: dict[str, Any] = {}

    async def large() -> None:
        answers["large"] = await parts.submit(((dummy(),),) * COUNT)
        order.append("large")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(large)
        # read, and about to be built
        while parts.submission._arriving == 0:
            await trio.lowlevel.checkpoint()
        answers["small"] = await parts.submit_one()
        order.append("small")

    assert order == ["small", "large"]
    assert answers["large"] == [[True, number] for number in range(1, COUNT + 1)]
    assert answers["small"] == COUNT + 1
    assert parts.store.paths.serial_file.read_text() == f"{COUNT + 1}\n"


async def test_no_job_is_seen_before_all_are_durable(parts: Luxid, monkeypatch: pytest.MonkeyPatch) -> None:
    files_at_first_sight: list[int] = []
    real = parts.jobs.table.put

    def put(job: Job) -> None:
        if not files_at_first_sight:
            files_at_first_sight.append(len(list(parts.store.paths.queue.glob("job-*"))))
        real(job)

    monkeypatch.setattr(parts.jobs.table, "put", put)

    await parts.submit(((dummy(),),) * COUNT)

    assert files_at_first_sight == [COUNT]
    assert not list(parts.store.paths.submissions.glob("batch-*"))


async def test_ids_of_jobs_that_are_refused_are_given_to_the_next(parts: Luxid) -> None:
    wrong = (dummy(depends=[[99_999, []]]),)
    jobs = tuple(itertools.islice(itertools.cycle([(dummy(),), wrong]), 400))

    answers = await parts.submit(jobs)

    assert [answer[1] for answer in answers if answer[0]] == list(range(1, 201))
    assert await parts.submit_one() == 201
    assert parts.store.paths.serial_file.read_text() == "201\n"


async def test_a_large_submission_keeps_its_places_in_the_queue_while_it_is_made(parts: Luxid) -> None:
    users = parts.jobs.queue.users
    users.bounds = attrs.evolve(users.bounds, queued=COUNT)
    refused: list[str] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(parts.submit, ((dummy(),),) * COUNT)
        while parts.store.serial == 0:
            await trio.lowlevel.checkpoint()
        try:
            await parts.submit_one()
        except Exception as error:
            refused.append(str(error))

    assert len(refused) == 1
    assert f"the queue holds {COUNT} of at most {COUNT} jobs" in refused[0]


async def test_the_collector_does_not_walk_all_jobs_while_many_are_taken(
    parts: Luxid, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled: set[bool] = set()
    real = encode_job

    def encode(job: Job) -> bytes:
        enabled.add(gc.isenabled())
        return real(job)

    monkeypatch.setattr(store_module, "encode_job", encode)
    frozen = gc.get_freeze_count()

    await parts.submit(((dummy(),),) * COUNT)

    assert enabled == {False}
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen + COUNT

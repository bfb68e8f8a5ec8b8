"""luxid asks for the filter rules while it reads its queue, so that a long one is not judged twice."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from common.clusterinit import create_cluster
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp
from common.settings import LimitsSettings, LuxidSettings, Settings
from common.system.clocks import Clock
from daemons.luxid import main
from daemons.luxid import parts as earlyparts
from daemons.luxid.config import FilterRuleSync
from daemons.luxid.files.loading import FoundQueue, load_queue
from daemons.luxid.files.queuefiles import Changes
from daemons.luxid.files.store import Store
from daemons.luxid.parts import JobParts
from tests.support.filterrules import filter_rule
from tests.support.wait import PATIENCE_S

JOBS = 30
PAUSE_ALL = filter_rule(
    watermark=JobId(0),
    priority=0,
    predicates=(),
    action="PAUSE",
    reason_trail=(),
    uuid="00000000-0000-4000-8000-000000000001",
)


@pytest.mark.trio
async def test_a_job_that_is_found_after_the_rules_is_judged_once(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[JobParts] = []
    are_known = trio.Event()

    class KnownRules(FilterRuleSync):
        async def load(self) -> None:
            self._scheduler.install_rules([PAUSE_ALL])
            are_known.set()

    class KeptParts(JobParts):
        @classmethod
        def make(
            cls,
            store: Store,
            settings: LuxidSettings,
            limits: LimitsSettings | None = None,
            *,
            takes_up: bool = False,
            clock: Clock | None = None,
        ) -> JobParts:
            made.append(JobParts.make(store, settings, limits, takes_up=takes_up, clock=clock))
            return made[0]

    def load_afterwards(
        paths: Paths, pause: Callable[[float], None], changes: Changes, *, takes_up: bool
    ) -> FoundQueue:
        trio.from_thread.run(are_known.wait)
        return load_queue(paths, pause, changes, takes_up=takes_up)

    monkeypatch.setattr(earlyparts, "FilterRuleSync", KnownRules)
    monkeypatch.setattr(earlyparts, "JobParts", KeptParts)
    monkeypatch.setattr(main, "load_queue", load_afterwards)
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    for number in range(1, JOBS + 1):
        job = Job(JobId(number), (JobOp({"OP_ID": "OP_TEST_DUMMY", "result": None}),))
        paths.job_file(number).write_bytes(encode_job(job))

    with trio.fail_after(PATIENCE_S):
        await nursery.start(main.serve, Settings(paths))

    (parts,) = made
    assert len(parts.jobs.table) == JOBS
    assert parts.jobs.queue.judged == JOBS
    nursery.cancel_scope.cancel()

"""Pauses after starts that came to nothing (daemons/luxid/processes/starting.py)."""

from pathlib import Path

import pytest
import trio
import trio.testing

from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp
from common.settings import LuxidSettings
from common.system.shortages import FIRST_PAUSE_S
from daemons.luxid.files.store import open_store
from daemons.luxid.parts import JobParts
from daemons.luxid.processes.starting import Attempts

REASON = "too many open files"


def new_job(number: int) -> Job:
    return Job(JobId(number), (JobOp({"OP_ID": "OP_TEST_DUMMY"}),))


@pytest.mark.trio
async def test_nothing_is_started_before_the_longest_of_several_pauses_is_over(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    parts = JobParts.make(store, LuxidSettings())
    attempts = Attempts(parts.jobs, parts.rewriting, parts.scheduler, limit=5)
    seen: list[int] = []

    async with trio.open_nursery() as nursery:
        for number in (1, 2, 3):
            nursery.start_soon(attempts.back_off, new_job(number), REASON)
        # within the first pause, the second, the third, and after it
        for moment in (0.5, 1.5, 3.5, 4.5):
            await trio.sleep_until(moment * FIRST_PAUSE_S)
            seen.append(len(parts.jobs.obstacles))
    store.close()

    assert seen == [1, 1, 1, 0]

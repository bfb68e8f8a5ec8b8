"""The records of job processes: what a process takes with it, and what goes with the job (DESIGN section 7)."""

from pathlib import Path
from typing import Any, cast

import pytest
import trio

from common.ids import JobId
from common.paths import Paths
from daemons.luxid.core.queue.recovery import RecoveryRequest
from daemons.luxid.processes.jobprocesses import JobProcesses, PriorityMessages

JOB, OTHER = JobId(1), JobId(2)


class Messages:
    """The kill messages that stand."""

    def __init__(self) -> None:
        self.standing: set[JobId] = set()

    def ask(self, job_id: JobId) -> None:
        self.standing.add(job_id)

    def withdraw(self, job_id: JobId, *, was_kill: bool = True) -> None:
        if was_kill:
            self.standing.discard(job_id)


def processes(messages: Messages | None = None) -> JobProcesses:
    paths = Paths.under_root(Path("/nowhere"))
    return JobProcesses(cast(Any, messages or Messages()), PriorityMessages(paths))


async def suspects_of(told: JobProcesses) -> frozenset[JobId]:
    with trio.move_on_after(1):
        return await told.suspects()
    return frozenset()


def test_an_ended_job_leaves_no_record_and_no_message() -> None:
    messages = Messages()
    told = processes(messages)
    told.has(JOB, "/livelocks/job_1").secrets = [{"password": "x"}]
    told.ask_kill(JOB)
    told.has(OTHER, "/livelocks/job_2")

    told.ended(JOB)

    assert (len(told), told.find(JOB), told.ask(JOB)) == (1, None, None)
    assert messages.standing == set()


def test_a_process_that_is_gone_takes_its_own_facts_with_it_and_leaves_those_of_the_job() -> None:
    told = processes()
    record = told.has(JOB, "/livelocks/job_1")
    record.secrets, record.failures, record.begun_at = [None], 2, 1
    record.child_pid, record.heeds_pauses, record.ask = 77, True, RecoveryRequest.CANCEL

    told.gone(JOB)

    assert told.find(JOB) is record
    assert (record.secrets, record.failures, record.begun_at, record.ask) == ([None], 2, 1, RecoveryRequest.CANCEL)
    without_process = told.find(JOB)
    assert without_process is not None
    assert (without_process.livelock, without_process.child_pid) == (None, None)
    assert not told.heeds_pauses(JOB)


@pytest.mark.trio
@pytest.mark.usefixtures("autojump_clock")
async def test_a_touched_livelock_makes_only_its_present_holder_suspect() -> None:
    told = processes()
    told.has(JOB, "/livelocks/job_1_a")
    told.gone(JOB)
    told.has(JOB, "/livelocks/job_1_b")
    told.has(OTHER, "/livelocks/job_2")

    told.livelocks_touched(["job_1_a", "job_3"])
    assert await suspects_of(told) == frozenset()

    told.livelocks_touched(["job_1_b"])
    assert await suspects_of(told) == {JOB}
    assert await suspects_of(told) == frozenset()


@pytest.mark.trio
@pytest.mark.usefixtures("autojump_clock")
async def test_nobody_is_woken_for_the_process_of_a_job_that_has_ended() -> None:
    told = processes()
    told.has(JOB, "/livelocks/job_1")
    told.ended(JOB)

    told.suspect(JOB)
    told.livelocks_touched(["job_1"])

    assert await suspects_of(told) == frozenset()

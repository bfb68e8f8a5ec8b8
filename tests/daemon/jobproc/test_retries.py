"""A command that fails is tried again: what the job process writes, frees, and leaves to luxid (DESIGN section 16)."""

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import inotify_simple
import orjson
import pytest

from common.ids import JobId
from common.queue.jobs import Job, JobState
from common.queue.reasons import output_of_try, tries_of
from tests.support.daemons.forkserver import JobHost, Started
from tests.support.wait import wait_until

_NUMBERS = itertools.count(1)
# every try tells its number, and the third one succeeds
THIRD = "echo try $GANTRY_TRY; [ $GANTRY_TRY = 3 ] || exit 75"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobHost]:
    """A fork server for all tests here: each has a job of its own."""
    host = JobHost(tmp_path_factory.mktemp("host"), "[luxid]\nkill_grace_s = 0.2\n")
    try:
        host.start_server()
        yield host
    finally:
        host.close()


@attrs.frozen
class Tried:
    """One job, and the processes that the test gives it one after the other."""

    host: JobHost
    job_id: int

    def begin(self, *ops: dict[str, Any]) -> Started:
        self.host.write_job(self.job_id, *ops)
        return self.host.go(self.host.fork(self.job_id))

    def run(self, *ops: dict[str, Any]) -> Job:
        """Carry out the first try, and return the job after it."""
        return self.end(self.begin(*ops))

    def again(self) -> Job:
        """Give the job, which is queued, its next process, as luxid does."""
        return self.end(self.host.go(self.host.fork(self.job_id)))

    def end(self, started: Started) -> Job:
        self.host.wait_exit(started.pid)
        return self.job

    @property
    def job(self) -> Job:
        return self.host.job(self.job_id)

    @property
    def states(self) -> list[str]:
        return self.host.states(self.job_id)

    @property
    def gate(self) -> Path:
        return self.host.root / f"gate-{self.job_id}"

    def wait_printed(self) -> None:
        wait_until(lambda: any(self.host.paths.output.glob(f"job-{self.job_id}.*")), what="it has begun")

    def wait_left(self) -> None:
        log = self.host.paths.job_log(self.job_id)
        wait_until(lambda: log.exists() and b"waiting for processes" in log.read_bytes(), what="it waits for the rest")

    def output(self, number: int) -> str:
        found = output_of_try(self.job, number)
        assert found is not None
        whole = b"".join(path.read_bytes() for path in sorted(self.host.paths.output.glob(f"job-{self.job_id}.0*")))
        return whole[found.begin : found.end].decode()


@pytest.fixture
def tried(served: JobHost) -> Tried:
    return Tried(served, next(_NUMBERS))


def shell(script: str, **parameters: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["/bin/sh", "-c", script], **parameters}


def texts(job: Job) -> list[Any]:
    return [line.message for op in job.ops for line in op.log]


def test_a_failed_try_goes_back_to_the_queue_and_the_last_one_is_the_job_s_end(tried: Tried) -> None:
    job = tried.run(shell(THIRD, retries=3, retry_delay=0))
    assert (job.state, job.ops[0].start_at, job.ops[0].exec_at, job.end_at) == (JobState.QUEUED, None, None, None)

    assert tried.again().state is JobState.QUEUED
    job = tried.again()

    assert job.state is JobState.SUCCESS
    assert (job.ops[0].result["exit_code"], job.ops[0].result["tries"]) == (0, 3)
    assert [(each.number, each.exit_code, each.why) for each in tries_of(job.ops[0])] == [
        (1, 75, "ended with exit code 75"),
        (2, 75, "ended with exit code 75"),
    ]
    assert texts(job) == [
        "try 1 of 4 ended with exit code 75; next at once",
        "try 2 of 4 ended with exit code 75; next at once",
    ]
    assert [tried.output(number) for number in (1, 2, 3)] == ["try 1\n", "try 2\n", "try 3\n"]


def test_the_last_failure_tells_the_number_of_tries(tried: Tried) -> None:
    tried.run(shell("exit 75", retries=1, retry_delay=0))

    job = tried.again()

    assert job.state is JobState.ERROR
    assert job.ops[0].result[1][1]["tries"] == 2
    assert job.ops[0].result[1][1]["exit_code"] == 75


def test_the_pause_is_in_the_file_with_the_try(tried: Tried) -> None:
    job = tried.run(shell("exit 1", retries=1, retry_delay=1000))

    (failed,) = tries_of(job.ops[0])
    assert 800 <= failed.next_at - failed.end_at <= 1200
    assert failed.start_at <= failed.end_at
    assert "try 1 of 2 ended with exit code 1; next in 1" in texts(job)[0]


@pytest.mark.parametrize(
    "terms", [{"fail_on": ["exit=2"]}, {"retry_on": ["exit=75", "timeout"]}, {"fail_on": ["any"], "retry_on": ["any"]}]
)
def test_a_failure_that_is_not_to_be_tried_again_ends_the_job(tried: Tried, terms: dict[str, Any]) -> None:
    job = tried.run(shell("exit 2", retries=3, **terms))

    assert job.state is JobState.ERROR
    assert job.ops[0].result[1][1]["tries"] == 1


def test_a_program_that_does_not_exist_is_not_tried_again(tried: Tried) -> None:
    job = tried.run({"OP_ID": "OP_RUN_COMMAND", "argv": ["/no/such/program"], "retries": 3})

    assert job.state is JobState.ERROR


def test_a_try_has_its_own_time_limit(tried: Tried) -> None:
    op = shell("sleep 600", retries=1, retry_delay=0, retry_on=["timeout"], timeout=0.1)
    first = tried.run(op)
    assert first.state is JobState.QUEUED

    job = tried.again()

    assert job.state is JobState.ERROR
    assert texts(job) == ["try 1 of 2 did not end within 0.1 s and was stopped; next at once"]


def test_a_try_costs_two_writes_and_an_ordinary_job_no_more_than_before(tried: Tried) -> None:
    tried.host.write_job(tried.job_id, shell("exit 1", retries=1, retry_delay=0))
    with inotify_simple.INotify() as watch:
        watch.add_watch(tried.host.paths.queue, inotify_simple.flags.MOVED_FROM)
        tried.again()
        renamed = [event.name for event in watch.read(timeout=0)]

    assert len(renamed) == 2


def test_locks_are_free_in_the_pause(tried: Tried) -> None:
    tried.run(shell("exit 1", retries=1, locks={"node/n1": "exclusive"}))

    # processes that another test's job has left may hold its locks yet
    assert tried.job_id not in tried.host.wconfd.owners()
    assert tried.host.wconfd.methods[-1] == "freeLocks"


def test_the_next_try_begins_after_the_last_process_of_the_one_before(tried: Tried) -> None:
    """With `keep_locks` the program's background processes run on, under the job's locks."""
    gate = tried.gate
    op = shell(
        f"(until [ -e {gate} ]; do sleep 0.01; done) & exit 1",
        retries=1,
        retry_delay=0,
        keep_locks=True,
        locks={"node/n1": "exclusive"},
    )
    started = tried.begin(op)
    tried.wait_left()
    assert tried.states == ["running"]
    assert tried.job_id in tried.host.wconfd.owners()

    gate.touch()
    tried.end(started)

    assert tried.states == ["queued"]
    assert tried.job_id not in tried.host.wconfd.owners()


def test_a_cancel_while_a_failed_try_leaves_processes_cancels_the_job(tried: Tried) -> None:
    started = tried.begin(shell("sleep 600 & exit 1", retries=1, keep_locks=True))
    tried.wait_left()

    os.kill(started.pid, signal.SIGTERM)
    tried.end(started)

    assert tried.states == ["canceled"]


def test_a_try_that_fails_after_a_request_to_cancel_is_the_last(tried: Tried) -> None:
    gate = tried.gate
    started = tried.begin(shell(f"until [ -e {gate} ]; do sleep 0.01; done; exit 1", retries=3))
    wait_until(lambda: tried.states == ["running"], what="it runs")

    os.kill(started.pid, signal.SIGTERM)
    gate.touch()
    tried.end(started)

    assert tried.states == ["error"]


def test_a_killed_command_is_not_tried_again(tried: Tried) -> None:
    started = tried.begin(shell("echo begun; sleep 600", retries=3))
    tried.wait_printed()

    tried.host.paths.kill_message(JobId(tried.job_id)).touch()
    os.kill(started.pid, signal.SIGTERM)
    tried.end(started)

    assert tried.states == ["canceled"]


def test_of_several_opcodes_only_the_failed_one_is_tried_again(tried: Tried) -> None:
    tried.run(shell("echo first"), shell(THIRD, retries=3, retry_delay=0), shell("echo last"))
    assert tried.states == ["success", "queued", "queued"]

    tried.again()
    tried.again()

    assert tried.states == ["success", "success", "success"]
    assert [tried.output(number) for number in (1, 2, 3)] == ["try 1\n", "try 2\n", "try 3\n"]


def test_the_file_has_only_ganeti_s_keys(tried: Tried) -> None:
    path = tried.host.paths.job_file(JobId(tried.job_id))
    tried.host.write_job(tried.job_id, shell("exit 1", retries=1))
    before = orjson.loads(path.read_bytes())

    tried.again()

    after = orjson.loads(path.read_bytes())
    assert after.keys() == {*before, "livelock", "process_id"}
    assert after["ops"][0].keys() == before["ops"][0].keys()
    assert after["ops"][0]["input"].keys() == {*before["ops"][0]["input"], "reason"}
    assert all(len(entry) == 3 for entry in after["ops"][0]["input"]["reason"])


def test_a_lost_supervisor_is_a_lost_try_which_is_not_counted(tried: Tried) -> None:
    op = shell("echo begun; sleep 600", retries=1, retry_on=["exit=75"], rerunnable=True)
    started = tried.begin(op)
    tried.wait_printed()

    kill_supervisor(started)
    tried.end(started)

    (lost,) = tries_of(tried.job.ops[0])
    assert (lost.is_lost, tried.states) == (True, ["queued"])
    assert texts(tried.job)[0].startswith("try 1 of 3 was lost; next in ")


def kill_supervisor(started: Started) -> None:
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)

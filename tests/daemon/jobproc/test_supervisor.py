"""A command and all that it started end together when any of the three processes is killed. DESIGN section 16.

Each with control groups, where this machine and user may make them, and without.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.queue.jobs import JobState
from common.system.livelock import is_alive
from common.system.processes import Process, descendants, find_process, is_living
from tests.daemon.jobproc.test_run_command import command, error_of, shell, wait_output
from tests.support.daemons.forkserver import JobHost, Started
from tests.support.wait import wait_until

# ignores TERM, leaves its session by a double fork, stops itself, and goes on making others that do the same
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(12):
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        with open(f"{sys.argv[1]}/{os.getpid()}", "w"):
            pass
        if number == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            time.sleep(0.05)
            if os.fork() == 0:
                os.setsid()
                os._exit(0)
print("begun", flush=True)
while not os.path.exists(f"{sys.argv[1]}.over"):
    time.sleep(0.02)
"""


# chains of processes, each of which makes the next in a session of its own and ends
HOPPERS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(6):
    if os.fork() == 0:
        while True:
            if os.fork() != 0:
                os._exit(0)
            os.setsid()
print("begun", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=["auto", "off"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobHost]:
    host = JobHost(tmp_path, f'[luxid]\nkill_grace_s = 0.2\n[jobproc]\ncgroups = "{request.param}"\n')
    try:
        host.start_server()
        yield host
    finally:
        host.close()


def stubborn(host: JobHost, **parameters: object) -> dict[str, object]:
    """A command that ends when `end_stubborn` says so, and leaves the others behind."""
    (host.root / "pids").mkdir()
    return command(sys.executable, "-c", STUBBORN, str(host.root / "pids"), **parameters)


def end_stubborn(host: JobHost) -> None:
    (host.root / "pids.over").touch()


def begun(host: JobHost) -> list[Process]:
    """The stubborn processes, once all of them are there."""
    folder = host.root / "pids"
    wait_until(lambda: len(os.listdir(folder)) == 12, what="all have begun")
    return [process for name in os.listdir(folder) if (process := find_process(int(name))) is not None]


def supervisor_of(started: Started) -> int:
    """Pid of the supervisor: the one child of the job process."""
    return int(Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text())


def ask_to_kill(host: JobHost, started: Started) -> None:
    host.paths.kill_message(started.job_id).touch()
    os.kill(started.pid, signal.SIGTERM)


def assert_all_ended(host: JobHost, processes: list[Process]) -> None:
    assert len(processes) == 12
    assert not any(map(is_living, processes))
    assert host.wconfd.owners() == []


def test_a_kill_ends_all_of_it_and_the_job_as_canceled(host: JobHost) -> None:
    started = host.start(1, stubborn(host), shell("true"))
    processes = begun(host)

    ask_to_kill(host, started)
    host.wait_exit(started.pid)

    assert host.states(1) == ["canceled", "canceled"]
    assert_all_ended(host, processes)
    assert not Path(started.livelock).exists()


def test_processes_that_are_always_gone_already_are_ended_too(host: JobHost) -> None:
    started = host.start(1, command(sys.executable, "-c", HOPPERS))
    wait_output(host, 1, b"begun")

    ask_to_kill(host, started)
    host.wait_exit(started.pid)

    assert host.states(1) == ["canceled"]
    assert not Path(started.livelock).exists()


def test_a_killed_job_is_canceling_until_nothing_of_it_lives(tmp_path: Path) -> None:
    host = JobHost(tmp_path, "[luxid]\nkill_grace_s = 600\n")
    try:
        host.start_server()
        pid_file = host.root / "pid"
        script = f"trap '' TERM; trap 'exit 0' USR1; echo $$ > {pid_file}; echo begun; while :; do sleep 0.05; done"
        started = host.start(1, shell(script), shell("true"))
        wait_output(host, 1, b"begun")

        ask_to_kill(host, started)
        host.wait_state(1, JobState.CANCELING)

        assert host.states(1) == ["canceling", "queued"]
        assert is_alive(started.livelock)
        assert host.wconfd.owners() == [1]
        os.kill(int(pid_file.read_text()), signal.SIGUSR1)
        host.wait_exit(started.pid)
        # although its exit code is one that is expected
        assert host.states(1) == ["canceled", "canceled"]
        assert host.job(1).ops[0].result == "job was killed on request"
    finally:
        host.close()


def test_what_a_command_leaves_behind_is_ended_with_it(host: JobHost) -> None:
    started = host.start(1, stubborn(host))
    processes = begun(host)

    end_stubborn(host)
    host.wait_exit(started.pid)

    assert host.states(1) == ["success"]
    assert_all_ended(host, processes)


def test_a_command_outlives_its_job_process_and_is_ended_through_its_supervisor(host: JobHost) -> None:
    started = host.start(1, stubborn(host))
    processes = begun(host)
    supervisor = supervisor_of(started)
    os.kill(started.pid, signal.SIGKILL)
    host.wait_exit(started.pid)
    assert all(map(is_living, processes))
    assert is_alive(started.livelock)

    os.kill(supervisor, signal.SIGTERM)
    host.wait_dead(started.livelock)

    assert not any(map(is_living, processes))


def test_when_the_supervisor_is_killed_the_job_process_ends_what_it_supervised(host: JobHost) -> None:
    started = host.start(1, stubborn(host), shell("true"))
    processes = begun(host)

    os.kill(supervisor_of(started), signal.SIGKILL)
    host.wait_exit(started.pid)

    assert "the supervisor of" in error_of(host, 1)
    assert host.states(1) == ["error", "error"]
    assert_all_ended(host, processes)


def test_a_command_is_killed_with_its_supervisor_when_the_job_process_is_gone_too(host: JobHost) -> None:
    started = host.start(1, shell("echo begun; exec sleep 600"))
    wait_output(host, 1, b"begun")
    processes = descendants(started.pid)
    supervisor = supervisor_of(started)

    os.kill(started.pid, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)

    wait_until(lambda: not any(map(is_living, processes)), what="the command has ended")


def test_a_kill_ends_what_an_earlier_opcode_left_under_the_locks(host: JobHost) -> None:
    started = host.start(1, stubborn(host, keep_locks=True), shell("true"))
    processes = begun(host)
    end_stubborn(host)
    wait_until(lambda: host.job(1).ops[1].log, what="the second opcode says what it waits for")

    ask_to_kill(host, started)
    host.wait_exit(started.pid)

    assert host.states(1) == ["success", "canceled"]
    assert not any(map(is_living, processes))
    # the second opcode asks for none: a request without a waiter may be granted after all has been freed
    assert host.wconfd.methods == ["updateLocksWaiting", "freeLocks"]
    assert host.wconfd.owners() == []


def test_a_unit_without_a_command_ends_at_once_when_it_is_killed(host: JobHost) -> None:
    started = host.start(1, {"OP_ID": "OP_TEST_DELAY", "duration": 600.0})
    host.wait_state(1, JobState.RUNNING)

    ask_to_kill(host, started)
    host.wait_exit(started.pid)

    assert host.states(1) == ["canceled"]

"""The machine is shut down while a job runs: what its process then does. DESIGN sections 5 and 11.

The first process of the machine has another name for the fork server and its jobs: that of systemd at that moment.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.access import caller_text
from common.ids import JobId
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.queue.jobs import JobState
from common.queue.reasons import tries_of
from common.queue.sidefiles import note_words
from tests.support.daemons.forkserver import JobHost, Started
from tests.support.wait import wait_until

DUMMY: dict[str, Any] = {"OP_ID": "OP_TEST_DUMMY"}
WITH_NODE: dict[str, Any] = {**DUMMY, "locks": {"node/n1": "exclusive"}}
LONG_DELAY: dict[str, Any] = {"OP_ID": "OP_TEST_DELAY", "duration": 600.0, "interruptible": True}
STRANGER = Owner("stranger", "/nowhere")
NODE = LockRequest(parse_lock("node/n1"), LockMode.EXCLUSIVE)
SHUT_DOWN = "the machine was shut down while the job ran"
_IN_ITS_PLACE = 'mount --bind "$0" /proc/1/comm && exec "$@"'


class Machine:
    """The fork server's machine. Args: first: file with the name of its first process."""

    def __init__(self, host: JobHost, first: Path) -> None:
        self.host = host
        self._first = first
        self.run_on()

    def run_on(self) -> None:
        self._first.write_text("systemd\n")

    def begin_shutdown(self, *pids: int) -> None:
        """Signal these processes, as systemd does at the end."""
        self._first.write_text("systemd-shutdow\n")
        for pid in pids:
            os.kill(pid, signal.SIGTERM)

    def shut_down(self, started: Started, *before: int) -> None:
        """Signal these processes, and the job's; wait for the end of the job's."""
        self.begin_shutdown(*before, started.pid)
        self.host.wait_exit(started.pid)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    if os.geteuid() != 0:
        pytest.skip("only root can show a process another first one")
    first = tmp_path / "first"
    first.touch()
    host = JobHost(tmp_path / "host", "[luxid]\nkill_grace_s = 0.2\n")
    host.prefix = ("unshare", "--mount", "sh", "-c", _IN_ITS_PLACE, str(first))
    try:
        machine = Machine(host, first)
        host.start_server()
        yield machine
    finally:
        host.close()


def _shell(host: JobHost, script: str, **more: Any) -> dict[str, Any]:
    begun = host.root / "begun"
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["/bin/sh", "-c", f"echo $$ > {begun}; {script}"], **more}


def _command_pid(host: JobHost) -> int:
    begun = host.root / "begun"
    wait_until(lambda: begun.exists() and begun.read_text().endswith("\n"), what="the command runs")
    return int(begun.read_text())


def test_an_opcode_that_runs_fails_and_names_the_shutdown(machine: Machine) -> None:
    host = machine.host
    started = host.start(1, LONG_DELAY, DUMMY)
    host.wait_state(1, JobState.RUNNING)

    machine.shut_down(started)

    preceding = ["OpExecError", ["preceding opcode failed"]]
    assert host.states(1) == ["error", "error"]
    assert [op.result for op in host.job(1).ops] == [["OpExecError", [SHUT_DOWN]], preceding]
    assert host.wconfd.owners() == []


def test_a_signal_by_hand_is_a_request_to_cancel_on_a_machine_that_runs_on(machine: Machine) -> None:
    host = machine.host
    started = host.start(1, LONG_DELAY)
    host.wait_state(1, JobState.RUNNING)

    os.kill(started.pid, signal.SIGTERM)
    host.wait_exit(started.pid)

    assert host.states(1) == ["canceled"]


def test_a_command_that_the_shutdown_ends_fails_its_job(machine: Machine) -> None:
    host = machine.host
    started = host.start(1, _shell(host, "exec sleep 600", retries=3))
    pid = _command_pid(host)

    machine.shut_down(started, pid)

    assert host.states(1) == ["error"]
    kind, (text, end) = host.job(1).ops[0].result
    assert (kind, text) == ("OpExecError", f"{SHUT_DOWN}: '/bin/sh' was ended by SIGTERM")
    assert end["lost"]


def test_a_command_that_ends_well_all_the_same_succeeds_and_what_follows_stays_queued(machine: Machine) -> None:
    host = machine.host
    gate = host.root / "gate"
    trap = f"until [ -e {gate} ]; do sleep 0.02; done"
    started = host.start(1, _shell(host, trap), DUMMY)
    _command_pid(host)

    # it ends after the signal, else the job would go on to its next opcode
    machine.begin_shutdown(started.pid)
    gate.touch()
    host.wait_exit(started.pid)

    assert host.states(1) == ["success", "queued"]
    machine.run_on()
    host.wait_exit(host.go(host.fork(1)).pid)
    assert host.states(1) == ["success", "success"]


def test_a_command_that_may_be_run_again_is_tried_again_after_the_shutdown(machine: Machine) -> None:
    host = machine.host
    started = host.start(1, _shell(host, "[ $GANTRY_TRY = 2 ] || exec sleep 600", rerunnable=True))
    pid = _command_pid(host)

    machine.shut_down(started, pid)

    assert host.states(1) == ["queued"]
    assert [each.is_lost for each in tries_of(host.job(1).ops[0])] == [True]
    machine.run_on()
    host.wait_exit(host.go(host.fork(1)).pid)
    assert host.states(1) == ["success"]


def test_a_job_that_waits_for_locks_is_queued_again_and_runs_after_the_next_start(machine: Machine) -> None:
    host = machine.host
    host.wconfd.hold(STRANGER, NODE)
    started = host.start(1, WITH_NODE, DUMMY)
    host.wait_state(1, JobState.WAITING)

    machine.shut_down(started)

    assert host.states(1) == ["queued", "queued"]
    assert host.wconfd.owners() == ["stranger"]
    machine.run_on()
    host.wconfd.free(STRANGER)
    host.wait_exit(host.go(host.fork(1)).pid)
    assert host.states(1) == ["success", "success"]


def test_a_shutdown_does_not_forget_who_asked_for_the_end_of_a_job(machine: Machine) -> None:
    host = machine.host
    host.wconfd.hold(STRANGER, NODE)
    started = host.start(1, WITH_NODE)
    host.wait_state(1, JobState.WAITING)
    note_words(host.paths.asker_note(JobId(1)), caller_text(1003))

    machine.shut_down(started)

    assert host.states(1) == ["canceled"]
    assert host.job(1).ops[0].result == "job was canceled on request of user 1003"

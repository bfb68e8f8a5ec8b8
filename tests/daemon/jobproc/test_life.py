"""One job's life: what is in its file, what wconfd is asked. DESIGN sections 3, 7 and 11; luxid.md 4 and 9."""

import signal
import socket
from os import kill
from pathlib import Path
from typing import Any

import inotify_simple
import pytest

from common.durable.atomicfile import write_file
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.queue.jobs import JobState
from common.system.livelock import is_alive
from protocol.framing import pack
from tests.support.daemons.forkserver import JobHost, Started
from tests.support.descriptors import no_descriptors
from tests.support.wait import wait_until

DUMMY: dict[str, Any] = {"OP_ID": "OP_TEST_DUMMY"}
LONG_DELAY: dict[str, Any] = {"OP_ID": "OP_TEST_DELAY", "duration": 600.0, "interruptible": True}
NODE = LockRequest(parse_lock("node/n1"), LockMode.EXCLUSIVE)
WITH_NODE: dict[str, Any] = {**DUMMY, "locks": {"node/n1": "exclusive"}}
STRANGER = Owner("stranger", "/nowhere")
CANCELED = "job was canceled on request"


def gated(host: JobHost) -> dict[str, Any]:
    """An opcode that cannot be interrupted, and ends when `open_gate` says so."""
    gate, begun = host.root / "gate", host.root / "begun"
    script = f"touch {begun}; until [ -e {gate} ]; do sleep 0.02; done"
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["/bin/sh", "-c", script]}


def wait_begun(host: JobHost) -> None:
    """Wait until the gated command runs; *running* is in the file before."""
    wait_until((host.root / "begun").exists, what="the command has begun")


def open_gate(host: JobHost) -> None:
    (host.root / "gate").touch()


def has_ended(host: JobHost, started: Started) -> None:
    host.wait_exit(started.pid)


def test_job_runs_to_success_with_its_result(host: JobHost) -> None:
    started = host.start(7, {**DUMMY, "result": {"a": [1, None]}})
    host.wait_exit(started.pid)
    job = host.job(7)

    assert job.state is JobState.SUCCESS
    assert job.ops[0].result == {"a": [1, None]}
    assert job.process_id == started.pid
    assert job.start_at == job.ops[0].start_at is not None
    assert job.ops[0].exec_at is not None
    assert job.end_at == job.ops[0].end_at is not None
    assert job.livelock is not None
    assert not Path(job.livelock).exists()
    assert host.wconfd.owners() == []


def test_a_process_that_cannot_read_its_job_begins_when_it_can(host: JobHost) -> None:
    host.write_job(7, {**DUMMY, "result": "done"})
    started = host.fork(7)

    with no_descriptors(started.pid):
        host.go(started)
        wait_until(lambda: host.log().count("job.unreadable job=7") > 1, what="it has tried again")
        assert host.states(7) == ["queued"]

    has_ended(host, started)
    assert host.job(7).ops[0].result == "done"


def test_a_process_that_is_canceled_before_it_could_read_its_job_leaves_it_alone(host: JobHost) -> None:
    host.write_job(7, DUMMY)
    started = host.fork(7)

    with no_descriptors(started.pid):
        host.go(started)
        wait_until(lambda: "job.unreadable job=7" in host.log(), what="it cannot read")
        kill(started.pid, signal.SIGTERM)
        has_ended(host, started)

    assert host.states(7) == ["queued"]
    assert not Path(started.livelock).exists()


def test_opcode_whose_locks_are_free_asks_wconfd_twice(host: JobHost) -> None:
    host.run(1, {**DUMMY, "locks": {"node/n1": "exclusive", "instance/i1": "shared", "node/n2": "shared"}})

    assert host.wconfd.methods == ["updateLocksWaiting", "freeLocks"]
    assert [request.to_wire() for request in host.wconfd.requests[0].requests] == [  # type: ignore[attr-defined]
        ["cluster/BGL", "shared"],
        ["instance/i1", "shared"],
        ["node/n2", "shared"],
        ["node/n1", "exclusive"],
    ]


def test_opcode_costs_two_writes_of_the_file(host: JobHost) -> None:
    """DESIGN section 9: running, ended; nothing else."""
    host.write_job(1, DUMMY, DUMMY, DUMMY)
    with inotify_simple.INotify() as watch:
        # the temporary names: the kernel makes one event of equal ones in a row
        watch.add_watch(host.paths.queue, inotify_simple.flags.MOVED_FROM)
        has_ended(host, host.go(host.fork(1)))
        renamed = [event.name for event in watch.read(timeout=0)]

    assert host.states(1) == ["success"] * 3
    assert len(renamed) == 6
    assert all(name.startswith("job-1-") for name in renamed)


def test_big_lock_is_asked_for_alone(host: JobHost) -> None:
    host.run(1, {**DUMMY, "locks": {"cluster/BGL": "exclusive"}})

    assert [request.to_wire() for request in host.wconfd.requests[0].requests] == [["cluster/BGL", "exclusive"]]  # type: ignore[attr-defined]


def test_owner_is_job_livelock_and_pid(host: JobHost) -> None:
    started = host.start(12, DUMMY)
    has_ended(host, started)

    request: Any = host.wconfd.requests[0]
    assert request.owner.to_wire() == [12, started.livelock, started.pid]


def test_failed_opcode_fails_those_after_it(host: JobHost) -> None:
    """luxid.md 4.4"""
    job = host.run(1, DUMMY, {**DUMMY, "fail": "no luck"}, DUMMY, DUMMY)

    preceding = ["OpExecError", ["preceding opcode failed"]]
    assert [op.state.value for op in job.ops] == ["success", "error", "error", "error"]
    assert [op.result for op in job.ops] == [None, ["OpExecError", ["no luck"]], preceding, preceding]
    assert job.end_at is not None
    assert host.wconfd.owners() == []


def test_prerequisite_error_keeps_its_class_and_reason(host: JobHost) -> None:
    job = host.run(1, {"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": "default"})

    error, (text, reason) = job.ops[0].result
    assert (error, text.partition(";")[0], reason) == ("OpPrereqError", "there is nothing to change", "wrong_input")


def test_a_delay_of_no_time_is_over_at_once(host: JobHost) -> None:
    assert host.run(1, {"OP_ID": "OP_TEST_DELAY", "duration": 0}).state is JobState.SUCCESS


def test_unknown_opcode_fails_the_job_and_names_it(host: JobHost) -> None:
    job = host.run(1, {"OP_ID": "OP_NO_SUCH"})

    assert job.state is JobState.ERROR
    assert job.ops[0].result[0] == "OpCodeUnknown"
    assert "OP_NO_SUCH" in job.ops[0].result[1][0]


def test_wrong_parameter_fails_the_job_and_names_it(host: JobHost) -> None:
    job = host.run(1, {**DUMMY, "colour": "red"})

    assert "colour" in job.ops[0].result[1][0]


def test_messages_are_in_the_log_in_order_over_all_opcodes(host: JobHost) -> None:
    job = host.run(1, {**DUMMY, "messages": ["a", "b"]}, {**DUMMY, "messages": "ü"})

    lines = [(entry.serial, entry.kind, entry.message) for op in job.ops for entry in op.log]
    assert lines == [(1, "message", "a"), (2, "message", "b"), (3, "message", "ü")]


def test_log_line_is_seen_while_the_opcode_runs(host: JobHost) -> None:
    host.start(1, {**LONG_DELAY, "repeat": 1})

    wait_until(lambda: host.job(1).ops[0].log, what="the line is in the file")

    assert host.job(1).state is JobState.RUNNING


def test_refused_lock_request_fails_the_opcode(host: JobHost) -> None:
    """An exclusive lock under a shared group, in two requests of one job: a rule of the lock table."""
    host.wconfd.stop()
    started = host.start(1, WITH_NODE)
    host.wconfd.hold(Owner(1, started.livelock), LockRequest(parse_lock("network/x"), LockMode.SHARED))
    host.wconfd.start()
    has_ended(host, started)

    result = host.job(1).ops[0].result
    assert "lock order violation" in result[1][0]


def test_job_waits_for_a_lock_and_says_so(host: JobHost) -> None:
    host.wconfd.hold(STRANGER, NODE)
    started = host.start(1, WITH_NODE)
    host.wait_state(1, JobState.WAITING)
    assert host.job(1).ops[0].exec_at is None

    host.wconfd.free(STRANGER)
    has_ended(host, started)

    assert host.states(1) == ["success"]
    assert "hasPendingRequest" not in host.wconfd.methods


def test_sigterm_while_waiting_for_locks_cancels_at_once(host: JobHost) -> None:
    host.wconfd.hold(STRANGER, NODE)
    started = host.start(1, WITH_NODE, DUMMY)
    host.wait_state(1, JobState.WAITING)
    wait_until(lambda: "waitLocks" in host.wconfd.methods, what="the job waits")

    kill(started.pid, signal.SIGTERM)
    has_ended(host, started)

    assert [op.result for op in host.job(1).ops] == [CANCELED, CANCELED]
    assert host.job(1).state is JobState.CANCELED
    assert host.wconfd.owners() == ["stranger"]


def test_sigterm_between_opcodes_cancels_the_rest(host: JobHost) -> None:
    """luxid.md 9.4: the running opcode ends, those after it are canceled."""
    started = host.start(1, gated(host), DUMMY)
    wait_begun(host)

    kill(started.pid, signal.SIGTERM)
    open_gate(host)
    has_ended(host, started)

    assert host.states(1) == ["success", "canceled"]
    assert host.job(1).end_at is not None


def test_sigterm_ends_an_interruptible_delay(host: JobHost) -> None:
    started = host.start(1, LONG_DELAY)
    host.wait_state(1, JobState.RUNNING)

    kill(started.pid, signal.SIGTERM)
    has_ended(host, started)

    assert host.states(1) == ["canceled"]


def test_sigterm_during_the_handshake_cancels_after_the_go_ahead(host: JobHost) -> None:
    host.write_job(1, DUMMY)
    started = host.fork(1)

    kill(started.pid, signal.SIGTERM)
    host.go(started)
    has_ended(host, started)

    assert host.states(1) == ["canceled"]
    assert host.wconfd.requests == []


def test_sighup_does_no_harm(host: JobHost) -> None:
    started = host.start(1, LONG_DELAY)
    host.wait_state(1, JobState.RUNNING)

    kill(started.pid, signal.SIGHUP)
    kill(started.pid, signal.SIGTERM)
    has_ended(host, started)

    assert host.states(1) == ["canceled"]


def test_new_priority_is_taken_and_the_pending_request_queued_anew(host: JobHost) -> None:
    """luxid.md 9.3"""
    host.wconfd.hold(STRANGER, NODE)
    started = host.start(1, WITH_NODE, DUMMY)
    wait_until(lambda: "waitLocks" in host.wconfd.methods, what="the job waits")
    message = host.paths.messages / "1.prio"
    write_file(message, b"-7\n")

    kill(started.pid, signal.SIGUSR1)

    wait_until(
        lambda: [request.priority for request in host.wconfd.pending()] == [-7],
        what="the request has the new priority",
        state=host.wconfd.pending,
    )
    assert not message.exists()
    assert [op.priority for op in host.job(1).ops] == [-7, -7]
    host.wconfd.free(STRANGER)
    has_ended(host, started)
    assert host.states(1) == ["success", "success"]


def test_unreadable_priority_is_passed_over(host: JobHost) -> None:
    started = host.start(1, LONG_DELAY, priority=3)
    host.wait_state(1, JobState.RUNNING)
    write_file(host.paths.messages / "1.prio", b"high")

    kill(started.pid, signal.SIGUSR1)
    wait_until(lambda: "priority.unreadable" in host.log(), what="it is logged")

    assert host.job(1).ops[0].priority == 3
    kill(started.pid, signal.SIGTERM)
    has_ended(host, started)


def test_wconfd_restart_is_of_no_consequence_to_a_waiting_job(host: JobHost) -> None:
    host.wconfd.hold(STRANGER, NODE)
    started = host.start(1, WITH_NODE)
    wait_until(lambda: "waitLocks" in host.wconfd.methods, what="the job waits")

    host.wconfd.stop()
    host.wconfd.free(STRANGER)
    host.wconfd.start()
    has_ended(host, started)

    assert host.states(1) == ["success"]
    assert host.wconfd.owners() == []


def test_wconfd_that_forgot_a_pending_request_is_asked_again(host: JobHost) -> None:
    host.wconfd.hold(STRANGER, NODE)
    started = host.start(1, WITH_NODE)
    wait_until(lambda: "waitLocks" in host.wconfd.methods, what="the job waits")

    host.wconfd.stop()
    host.wconfd.free(Owner(1, started.livelock))
    host.wconfd.start()
    wait_until(host.wconfd.pending, what="the request is pending again")
    host.wconfd.free(STRANGER)
    has_ended(host, started)

    assert host.states(1) == ["success"]


def test_job_waits_for_a_wconfd_that_is_down(host: JobHost) -> None:
    host.wconfd.stop()
    started = host.start(1, DUMMY)
    wait_until(lambda: "wconfd.unreachable" in host.log(), what="it is logged")
    assert host.states(1) == ["queued"]

    host.wconfd.start()
    has_ended(host, started)

    assert host.states(1) == ["success"]


def test_sigterm_cancels_while_wconfd_is_down(host: JobHost) -> None:
    host.wconfd.stop()
    started = host.start(1, DUMMY)
    wait_until(lambda: "wconfd.unreachable" in host.log(), what="it is logged")

    kill(started.pid, signal.SIGTERM)
    has_ended(host, started)

    assert host.states(1) == ["canceled"]


def test_wconfd_restart_under_a_running_opcode_is_not_noticed(host: JobHost) -> None:
    started = host.start(1, gated(host), DUMMY)
    wait_begun(host)

    host.wconfd.stop()
    host.wconfd.start()
    open_gate(host)
    has_ended(host, started)

    assert host.states(1) == ["success", "success"]
    assert host.wconfd.owners() == []


def test_locks_that_could_not_be_freed_are_freed_before_the_next_opcode(host: JobHost) -> None:
    started = host.start(1, {**WITH_NODE, "locks": {"node/n1": "shared"}, "messages": "x"}, DUMMY)
    has_ended(host, started)
    assert host.wconfd.owners() == []

    host.wconfd.requests.clear()
    started = host.start(2, gated(host), WITH_NODE)
    wait_begun(host)
    host.wconfd.stop()
    open_gate(host)
    wait_until(lambda: "locks.not_freed" in host.log(), what="freeing failed")
    host.wconfd.start()
    has_ended(host, started)

    assert host.states(2) == ["success", "success"]
    assert host.wconfd.methods == ["updateLocksWaiting", "freeLocks", "updateLocksWaiting", "freeLocks"]


def test_later_opcode_with_dependencies_is_left_to_another_process(host: JobHost) -> None:
    """DESIGN section 11: whose dependency."""
    depending = {**DUMMY, "depends": [[5, ["success"]]]}
    job = host.run(1, {**DUMMY, "depends": [[4, []]]}, depending, DUMMY)

    assert [op.state.value for op in job.ops] == ["success", "queued", "queued"]
    assert job.end_at is None
    assert host.wconfd.owners() == []
    assert job.livelock is not None
    assert not Path(job.livelock).exists()

    has_ended(host, host.go(host.fork(1)))
    assert host.states(1) == ["success"] * 3


def test_end_of_file_instead_of_the_go_ahead_leaves_the_job_alone(host: JobHost) -> None:
    """protocol.forkserver: the next luxid starts the job again, once."""
    host.write_job(1, DUMMY)
    before = host.paths.job_file(1).read_bytes()
    started = host.fork(1)
    assert is_alive(started.livelock)

    started.sock.close()
    has_ended(host, started)

    assert host.paths.job_file(1).read_bytes() == before
    assert not Path(started.livelock).exists()
    assert host.wconfd.requests == []


def test_something_else_than_the_go_ahead_leaves_the_job_alone(host: JobHost) -> None:
    host.write_job(1, DUMMY)
    started = host.fork(1)

    started.sock.sendall(pack(b"{}"))
    has_ended(host, started)

    assert host.states(1) == ["queued"]


def test_luxid_that_dies_after_the_go_ahead_does_not_stop_the_job(host: JobHost) -> None:
    host.write_job(1, DUMMY)
    started = host.fork(1)

    started.sock.sendall(pack(b""))
    started.sock.close()
    has_ended(host, started)

    assert host.states(1) == ["success"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"id": 1}'])
def test_damaged_job_file_is_left_as_it_is(host: JobHost, content: bytes) -> None:
    started = host.fork(1)
    host.paths.job_file(1).write_bytes(content)

    host.go(started)
    has_ended(host, started)

    assert 'effect="left to luxid"' in host.log()
    assert host.paths.job_file(1).read_bytes() == content
    assert "job.damaged" in host.log()
    assert not Path(started.livelock).exists()


def test_final_job_is_not_touched(host: JobHost) -> None:
    host.write_job(1, DUMMY, state=JobState.SUCCESS)
    before = host.paths.job_file(1).read_bytes()

    has_ended(host, host.go(host.fork(1)))

    assert host.paths.job_file(1).read_bytes() == before


def test_unit_may_submit_jobs(host: JobHost) -> None:
    listener = socket.socket(socket.AF_UNIX)
    with listener:
        listener.bind(str(host.paths.query_socket))
        listener.listen(1)
        started = host.start(1, {**DUMMY, "submit_jobs": [[DUMMY], [DUMMY]], "result": 5})
        caller, _ = listener.accept()
        with caller:
            assert b"SubmitManyJobs" in caller.recv(65536)
            caller.sendall(pack(b'{"success": true, "result": [[true, 8], [false, "full"]]}'))
            has_ended(host, started)

    assert host.job(1).ops[0].result == {"jobs": [[True, 8], [False, "full"]], "value": 5}

"""OP_RUN_COMMAND on a node, with a real node daemon: DESIGN sections 13 and 14."""

import time
from pathlib import Path

from common.ids import JobId
from daemons.jobproc.nodecommands.nodecommand import TELL_S
from protocol.luxi.jobs import CancelJob
from protocol.wconfd.locks import ListAllLocks, ListOrphanedLocks
from tests.daemon.jobproc.nodecommands.jobs import (
    commands_on,
    locks_of,
    log_of,
    output_of,
    result_of,
    shell,
    shell_parameters,
)
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.wait import wait_until


def test_a_command_runs_on_its_node_and_its_result_is_as_of_a_local_one(fleet: Fleet, node: FleetNode) -> None:
    job = fleet.master.submit(shell("echo $GANTRY_JOB_ID $GANTRY_DATA_DIR; echo oops >&2; exit 3", exit_codes=[3]))

    assert fleet.master.wait(job) == ["success"]

    result = result_of(fleet, job)
    assert result["exit_code"] == 3
    assert result["tail"] == [f"{job} {node.paths.data}", "oops"]
    assert result["output_bytes"] == len(output_of(fleet, job))
    assert output_of(fleet, job) == f"{job} {node.paths.data}\noops\n".encode()
    assert log_of(fleet, job) == []
    wait_until(lambda: not commands_on(node), what="the node has forgotten it", state=lambda: commands_on(node))
    # they are freed while the end is written
    wait_until(lambda: fleet.master.wconf(ListAllLocks()) == (), what="its locks are free")
    assert fleet.master.wconf(ListOrphanedLocks()) == ()


def test_it_holds_the_lock_of_the_node_and_of_the_master_too_if_that_is_named(fleet: Fleet, node: FleetNode) -> None:
    gate = fleet.master.root / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.02; done"
    jobs = [
        fleet.master.submit(shell(script)),
        fleet.master.submit(shell(script, node="node1", locks={"node/node1": "exclusive"})),
    ]
    fleet.master.wait(*jobs, status="running")
    uuids = {name: value["uuid"] for name, value in fleet.nodes_by_name().items()}

    held = {str(lock): mode.value for job in jobs for lock, mode in locks_of(fleet, job)}

    gate.touch()
    assert fleet.master.wait(*jobs) == ["success", "success"]
    assert held == {
        "cluster/BGL": "shared",
        f"node/{uuids['node2.test']}": "shared",
        f"node/{uuids['node1.test']}": "exclusive",
    }
    assert fleet.master.job(jobs[0], "summary") == (["RUN_COMMAND(node2.test: " + script[: 57 - 12] + "...)"],)


def test_a_command_on_the_master_that_locks_a_node_excludes_commands_there(fleet: Fleet) -> None:
    gate = fleet.master.root / "gate of a lock"
    script = f"until [ -e '{gate}' ]; do sleep 0.02; done"
    holder = fleet.master.submit(
        shell(script, node=None, locks={"node/node2.test": "exclusive", "node/rack7": "shared"})
    )
    fleet.master.wait(holder, status="running")
    there = fleet.master.submit(shell("true"))
    fleet.master.wait(there, status="waiting")
    uuid = fleet.nodes_by_name()["node2.test"]["uuid"]

    assert {str(lock) for lock, _ in locks_of(fleet, holder)} == {"cluster/BGL", f"node/{uuid}", "node/rack7"}

    gate.touch()
    assert fleet.master.wait(holder, there) == ["success", "success"]


def test_what_the_node_lacks_is_told_and_has_not_begun(fleet: Fleet) -> None:
    master = fleet.master
    missing = master.submit(shell("true", user="no-such-user"))
    folder = master.submit(shell("true", cwd="/no/such/folder"))
    program = master.submit({**shell(""), "shell": False, "argv": ["no-such-program"]})

    master.wait(missing, folder, program)

    for job, words in (
        (missing, "there is no user 'no-such-user' on"),
        (folder, "cwd '/no/such/folder' does not exist"),
        (program, "there is no program 'no-such-program'"),
    ):
        name, (text, end) = result_of(fleet, job)
        assert words in text
        assert (name, end["has_begun"]) == ("OpExecError", False)


def test_an_offline_node_is_refused(fleet: Fleet, node: FleetNode) -> None:
    fleet.change_node(node, offline=True, master_candidate=False)
    try:
        ended = fleet.carry_out(**shell_parameters("true"))
    finally:
        fleet.change_node(node, offline=False, master_candidate=True)

    assert ended.refusal.startswith("node 'node2.test' is marked offline")


def test_failures_kills_and_times_are_judged_as_here(fleet: Fleet) -> None:
    master = fleet.master
    trap = "trap '' TERM; echo here; sleep 600 & wait; sleep 600"
    killed = master.submit(shell(trap))
    late = master.submit(shell("echo too; echo late; sleep 600", timeout=0.1))
    failed = master.submit(shell("echo nearly; exit 7"))
    apart = master.submit(shell("echo out; echo err >&2; exit 1", stderr_apart=True))
    wait_until(lambda: output_of(fleet, killed) == b"here\n", what="the output of a running command is there")
    master.wait(killed, status="running")

    master.luxi(CancelJob(JobId(killed), kill=True))

    assert master.wait(killed, late, failed, apart) == ["canceled", "error", "error", "error"]
    assert result_of(fleet, killed).startswith("job was killed on request")
    assert result_of(fleet, late)[1][0].startswith("'echo too; echo late; sleep 600' did not end within 0.1 s")
    assert result_of(fleet, late)[1][1]["timed_out"]
    assert result_of(fleet, failed)[1][0].endswith("ended with exit code 7 (expected 0); last output: nearly")
    assert result_of(fleet, apart)[1][0].endswith("last output: err")


def test_a_killed_job_is_canceled_although_its_command_had_just_succeeded(fleet: Fleet, node: FleetNode) -> None:
    gate = node.cluster.root / "gate-kill"
    job = fleet.master.submit(shell(f"echo here; until [ -e {gate} ]; do sleep 0.02; done"))
    wait_until(lambda: output_of(fleet, job) == b"here\n", what="it runs")
    node.freeze()
    gate.touch()
    wait_until(lambda: f"{job}.0.1.end" in commands_on(node), what="it has ended, and the node cannot say so")

    fleet.master.luxi(CancelJob(JobId(job), kill=True))
    fleet.master.wait(job, status="canceling")
    node.thaw()

    assert fleet.master.wait(job) == ["canceled"]
    # they are freed while the end is written
    wait_until(lambda: fleet.master.wconf(ListAllLocks()) == (), what="its locks are free")


def test_much_output_is_whole_across_restarts_of_the_node_daemon(fleet: Fleet, node: FleetNode) -> None:
    gate = node.cluster.root / "gate-much"
    script = f"seq 1 200000; touch {gate}.1; until [ -e {gate} ]; do sleep 0.02; done; seq 200001 400000"
    job = fleet.master.submit(shell(script))
    wait_until(lambda: Path(f"{gate}.1").exists(), what="the first half is written")

    killed_at = time.monotonic()
    node.kill()
    gate.touch()
    node.start()

    assert fleet.master.wait(job) == ["success"]
    silent_s = time.monotonic() - killed_at
    whole = b"".join(b"%d\n" % number for number in range(1, 400001))
    assert output_of(fleet, job) == whole
    assert result_of(fleet, job)["output_bytes"] == len(whole)
    assert result_of(fleet, job)["tail"][-1] == "400000"
    # on a machine that starts a node daemon in time
    assert silent_s >= TELL_S or not any("does not answer" in line for line in log_of(fleet, job))


def test_the_next_opcode_waits_for_processes_that_keep_the_locks(fleet: Fleet, node: FleetNode) -> None:
    gate, left = node.cluster.root / "gate-left", node.cluster.root / "left"
    script = f"(until [ -e {gate} ]; do sleep 0.02; done; touch {left}) >/dev/null 2>&1 & echo started"
    job = fleet.master.submit(shell(script, keep_locks=True), shell(f"test -e {left}"))

    words = "waiting for processes that the previous opcode left"
    wait_until(lambda: any(words in line for line in log_of(fleet, job)), what="the next opcode waits")
    gate.touch()

    assert fleet.master.wait(job) == ["success"]
    wait_until(lambda: fleet.master.wconf(ListOrphanedLocks()) == (), what="no lock is orphaned")

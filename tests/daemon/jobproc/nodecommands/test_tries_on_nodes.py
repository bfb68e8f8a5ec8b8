"""Commands on a node that are tried again: each try is a command of its own there (DESIGN sections 13 and 16)."""

import os
import signal
from pathlib import Path

import pytest

from common.queue.jobfile import decode_job
from common.queue.reasons import Try, tries_of
from common.system.processes import holders
from protocol.luxi.jobs import ReadJobOutput, ReadOutputTimes
from protocol.wconfd.locks import ListAllLocks, ListOrphanedLocks
from tests.daemon.jobproc.nodecommands.jobs import commands_on, output_of, result_of, shell
from tests.support.cluster import kill_tree
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.wait import wait_until


def tries_on_disk(fleet: Fleet, job_id: int) -> tuple[Try, ...]:
    path = fleet.master.paths.job_file(job_id)
    return tries_of(decode_job(path.read_bytes(), path.name).ops[0])


def wait_printed(fleet: Fleet, job_id: int, text: bytes) -> None:
    wait_until(lambda: text in output_of(fleet, job_id), what=f"{text!r} is printed")


def kill_command(node: FleetNode) -> None:
    """The only command there, with its runner: nobody is left who could tell how it ended."""
    for live in node.paths.node_commands.glob("*.live"):
        for process in holders(str(live)):
            kill_tree(process.pid)


def test_each_try_runs_once_and_the_node_forgets_it(fleet: Fleet, node: FleetNode) -> None:
    tally = node.cluster.root / "tally-tries"
    script = f"echo try $GANTRY_TRY | tee -a {tally}; [ $GANTRY_TRY = 3 ] || exit 75"

    job = fleet.master.submit(shell(script, retries=3, retry_delay=0))

    assert fleet.master.wait(job) == ["success"]
    assert tally.read_text() == "try 1\ntry 2\ntry 3\n"
    assert result_of(fleet, job)["tries"] == 3
    texts = [fleet.master.luxi(ReadJobOutput(job, of_try=number)).text for number in (1, 2, 3)]
    assert texts == ["try 1\n", "try 2\n", "try 3\n"]
    wait_until(lambda: not commands_on(node), what="the node has forgotten all", state=lambda: commands_on(node))
    wait_until(lambda: fleet.master.wconf(ListAllLocks()) == (), what="its locks are free")
    assert fleet.master.wconf(ListOrphanedLocks()) == ()


def test_a_second_try_is_taken_up_by_another_process(fleet: Fleet, node: FleetNode) -> None:
    root = node.cluster.root
    script = f"echo try $GANTRY_TRY; [ $GANTRY_TRY = 2 ] || exit 1; until [ -e {root}/open-2 ]; do sleep 0.02; done"
    job = fleet.master.submit(shell(script, retries=1, retry_delay=0))
    wait_printed(fleet, job, b"try 2\n")
    path = fleet.master.paths.job_file(job)
    pid = decode_job(path.read_bytes(), path.name).process_id
    assert pid

    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: decode_job(path.read_bytes(), path.name).process_id != pid, what="it has another process")
    Path(root / "open-2").touch()

    assert fleet.master.wait(job) == ["success"]
    assert output_of(fleet, job) == b"try 1\ntry 2\n"
    assert len(tries_on_disk(fleet, job)) == 1


@pytest.mark.parametrize("is_rerunnable", [False, True])
def test_a_command_that_the_node_has_lost_runs_again_only_if_its_submitter_said_so(
    fleet: Fleet, node: FleetNode, *, is_rerunnable: bool
) -> None:
    # no shell that could tell of the death of its child before it dies itself
    script = "echo try $GANTRY_TRY; [ $GANTRY_TRY = 2 ] || exec sleep 600"
    job = fleet.master.submit(shell(script, retries=1, rerunnable=is_rerunnable))
    wait_printed(fleet, job, b"try 1\n")

    kill_command(node)

    assert fleet.master.wait(job) == ["success" if is_rerunnable else "error"]
    assert [each.is_lost for each in tries_on_disk(fleet, job)] == ([True] if is_rerunnable else [])
    assert output_of(fleet, job) == (b"try 1\ntry 2\n" if is_rerunnable else b"try 1\n")
    wait_until(lambda: fleet.master.wconf(ListAllLocks()) == (), what="its locks are free")


def test_the_output_of_a_command_on_a_node_has_times_on_the_master_alone(fleet: Fleet, node: FleetNode) -> None:
    job = fleet.master.submit(shell("echo here; sleep 0.6; echo there"))
    assert fleet.master.wait(job) == ["success"]

    told = fleet.master.luxi(ReadOutputTimes(job))

    assert [each.offset for each in told.times] == [0, 5]
    assert (told.at(0) or 0) < (told.at(5) or 0)
    assert list(node.paths.node_commands.rglob("*times*")) == []

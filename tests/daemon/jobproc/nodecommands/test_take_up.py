"""Job processes that die while their commands run on a node, and nodes that are silent: DESIGN sections 13 and 14."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from protocol.wconfd.locks import ListAllLocks, ListOrphanedLocks
from tests.daemon.jobproc.nodecommands.jobs import locks_of, log_of, output_of, result_of, shell
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.stopping import stop
from tests.support.wait import wait_until


def pid_of(fleet: Fleet, job_id: int) -> int:
    return int(orjson.loads(fleet.master.paths.job_file(job_id).read_bytes())["process_id"])


def kill_process(fleet: Fleet, job_id: int) -> None:
    os.kill(pid_of(fleet, job_id), signal.SIGKILL)


@contextmanager
def frozen_starts(fleet: Fleet) -> Iterator[None]:
    """No job gets a process within this context."""
    server = fleet.master.daemons["forkserver"]
    stop(server.pid)
    try:
        yield
    finally:
        server.send_signal(signal.SIGCONT)


def test_a_new_process_goes_on_with_the_output_and_the_locks_of_the_one_that_died(
    fleet: Fleet, node: FleetNode
) -> None:
    root = node.cluster.root
    script = f"echo x >> {root}/tally; seq 1 5000; until [ -e {root}/open ]; do sleep 0.02; done; seq 5001 5003"
    job = fleet.master.submit(shell("echo first", node=None), shell(script))
    wait_until(lambda: b"\n5000\n" in output_of(fleet, job), what="the first half is copied")
    before, dead = locks_of(fleet, job), pid_of(fleet, job)

    with frozen_starts(fleet):
        kill_process(fleet, job)
        wait_until(lambda: fleet.master.wconf(ListOrphanedLocks()), what="the locks are orphaned")
        assert locks_of(fleet, job) == before
    wait_until(lambda: not fleet.master.wconf(ListOrphanedLocks()), what="another process has the locks")
    assert locks_of(fleet, job) == before
    (root / "open").touch()

    assert fleet.master.wait(job) == ["success"]
    whole = b"".join(b"%d\n" % number for number in range(1, 5004))
    assert output_of(fleet, job) == b"first\n" + whole
    assert result_of(fleet, job)["output_bytes"] == len(whole)
    assert result_of(fleet, job)["tail"] == [str(number) for number in range(4984, 5004)]
    assert (root / "tally").read_text() == "x\n"
    assert pid_of(fleet, job) != dead
    wait_until(lambda: fleet.master.wconf(ListAllLocks()) == (), what="its locks are free")


def test_a_start_whose_reply_nobody_heard_is_one_start(fleet: Fleet, node: FleetNode) -> None:
    tally = node.cluster.root / "tally-start"
    node.freeze()
    job = fleet.master.submit(shell(f"echo x >> {tally}; echo hello"))
    wait_until(lambda: is_kept(fleet, job), what="the locks are kept, and the start is on its way")

    kill_process(fleet, job)
    wait_until(lambda: log_has_taken_up(fleet, job), what="another process has taken it up")
    node.thaw()

    assert fleet.master.wait(job) == ["success"]
    assert output_of(fleet, job) == b"hello\n"
    assert tally.read_text() == "x\n"


def test_a_command_that_ends_while_nobody_follows_it_has_its_outcome(fleet: Fleet, node: FleetNode) -> None:
    root = node.cluster.root
    job = fleet.master.submit(
        shell(f"echo one; until [ -e {root}/end ]; do sleep 0.02; done; echo two; touch {root}/done; exit 5")
    )
    wait_until(lambda: output_of(fleet, job) == b"one\n", what="it has begun")

    with frozen_starts(fleet):
        kill_process(fleet, job)
        (root / "end").touch()
        wait_until(lambda: Path(root / "done").exists(), what="it ends")

    assert fleet.master.wait(job) == ["error"]
    text, end = result_of(fleet, job)[1]
    assert text.endswith("ended with exit code 5 (expected 0); last output: two")
    assert end["exit_code"] == 5
    assert output_of(fleet, job) == b"one\ntwo\n"


def test_a_silent_node_is_told_of_and_its_locks_stay_when_its_time_is_over(impatient: Fleet, node: FleetNode) -> None:
    root = node.cluster.root
    # no try follows one that may still run
    again = {"retries": 3, "rerunnable": True}
    job = impatient.master.submit(shell(f"echo begun; until [ -e {root}/late ]; do sleep 0.02; done", **again))
    wait_until(lambda: output_of(impatient, job) == b"begun\n", what="it has begun")
    held = locks_of(impatient, job)
    node.kill()

    assert impatient.master.wait(job) == ["error"]

    log, (text, end) = log_of(impatient, job), result_of(impatient, job)[1]
    assert "may still run on node 'node2.test', so the job's locks are kept" in text
    assert end["lost"]
    assert any("node 'node2.test' does not answer since" in line for line in log)
    wait_until(lambda: job in orphans(impatient), what="the locks are orphaned")
    assert locks_of(impatient, job) == held
    node.start()
    wait_until(lambda: not orphans(impatient), what="the node has said that nothing runs there")
    assert locks_of(impatient, job) == []


def is_kept(fleet: Fleet, job_id: int) -> bool:
    """Whether `ghosts.data` tells of the job."""
    path = fleet.master.paths.data / "ghosts.data"
    return path.exists() and f'"{job_id}.0.1"'.encode() in path.read_bytes()


def orphans(fleet: Fleet) -> list[object]:
    return [orphan.owner.ident for orphan in fleet.master.wconf(ListOrphanedLocks())]


def log_has_taken_up(fleet: Fleet, job_id: int) -> bool:
    text = "".join(path.read_text() for path in fleet.master.paths.log.glob("*.log"))
    return f"job.taken_up job={job_id}" in text

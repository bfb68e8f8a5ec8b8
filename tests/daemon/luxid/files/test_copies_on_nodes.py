"""Every change of the queue reaches the master candidates, whatever fails meanwhile (DESIGN sections 12 and 13)."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from common.errors import GantryError
from common.ids import JobId
from common.system.program import NOT_MASTER
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import ArchiveJob, SubmitJob
from protocol.luxi.queue import SetDrainFlag, SetWatcherPause
from tests.cli.command import run
from tests.daemon.luxid.ops import dummy, gated
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.wait import wait_until

# what makes calls to other nodes dear to load
FOR_NODES = (
    "h11",
    "protocol.noded.clients.client",
    "daemons.luxid.copying.nodecopies",
    "protocol.noded.clients.connection",
)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with _fleet(tmp_path) as fleet:
        yield fleet


@contextmanager
def _fleet(root: Path, cluster: str = "") -> Iterator[Fleet]:
    """A master and two candidates, whose queues are equal."""
    with Fleet(root, 2, cluster=cluster) as fleet:
        fleet.start()
        fleet.master.start("forkserver", "luxid")
        fleet.until_same_queue(*fleet.nodes)
        yield fleet


def _run(fleet: Fleet, count: int) -> list[JobId]:
    """Submit jobs and wait for their ends."""
    job_ids = [fleet.master.submit(dummy()) for _ in range(count)]
    fleet.master.wait(*job_ids)
    return job_ids


def _archive(fleet: Fleet, job_id: JobId) -> None:
    assert fleet.master.luxi(ArchiveJob(job_id))


def _has(node: FleetNode, job_id: JobId) -> bool:
    return node.paths.job_file(job_id).exists()


def test_an_acknowledged_job_is_on_every_candidate(fleet: Fleet, tmp_path: Path) -> None:
    job_id = fleet.master.submit(gated(tmp_path / "gate"))
    are_there = [_has(node, job_id) for node in fleet.nodes]
    serials = [node.paths.serial_file.read_text() for node in fleet.nodes]
    is_told = "copies.slow" in fleet.master.log("luxid")
    (tmp_path / "gate").touch()
    fleet.master.wait(job_id)

    # on a busy machine an attempt may take too long, but then that is told
    assert is_told or (are_there, serials) == ([True, True], ["1\n", "1\n"])
    fleet.until_same_queue(*fleet.nodes)


def test_moves_the_drain_flag_and_the_pause_reach_candidates(fleet: Fleet) -> None:
    master = fleet.master
    _archive(fleet, _run(fleet, 3)[0])
    master.luxi(SetDrainFlag(True))
    master.luxi(SetWatcherPause(4_000_000_000.0))
    fleet.until_same_queue(*fleet.nodes)
    flags = [node.paths.drain_file.exists() for node in fleet.nodes]
    pauses = [node.paths.watcher_pause.read_text() for node in fleet.nodes]

    master.luxi(SetDrainFlag(False))
    master.luxi(SetWatcherPause(None))

    assert flags == [True, True]
    assert pauses == ["4000000000\n", "4000000000\n"]
    fleet.until_same_queue(*fleet.nodes)
    assert not any(node.paths.watcher_pause.exists() for node in fleet.nodes)


def test_a_killed_candidate_gets_what_it_missed(fleet: Fleet) -> None:
    first, second = fleet.nodes
    early = _run(fleet, 2)
    fleet.until_same_queue(first, second)
    first.kill()

    late = _run(fleet, 3)
    _archive(fleet, early[0])
    _archive(fleet, late[0])
    fleet.master.luxi(SetDrainFlag(True))
    fleet.until_same_queue(second)
    first.start()

    fleet.until_same_queue(first, second)
    assert f"copies.failed node={first.name}" in fleet.master.log("luxid")


def test_what_changed_before_luxid_was_killed_is_found_by_the_next(fleet: Fleet) -> None:
    first, second = fleet.nodes
    job_ids = _run(fleet, 3)
    fleet.until_same_queue(first, second)
    first.kill()
    _archive(fleet, job_ids[0])
    _run(fleet, 1)
    fleet.master.kill("luxid")
    first.start()

    fleet.master.start("luxid")

    fleet.until_same_queue(first, second)
    assert "copies.purge" not in fleet.master.log("luxid")


def test_submissions_do_not_wait_twice_for_a_candidate_that_hangs(fleet: Fleet) -> None:
    first, second = fleet.nodes
    first.freeze()

    job_ids = [fleet.master.submit(dummy()) for _ in range(8)]
    fleet.master.wait(*job_ids)
    fleet.until_same_queue(second)
    waits = fleet.master.log("luxid").count(f"copies.slow node={first.name}")
    first.thaw()

    assert waits == 1
    fleet.until_same_queue(first, second)


def test_a_new_candidate_loses_its_old_jobs_and_gets_the_queue(fleet: Fleet) -> None:
    first, second = fleet.nodes
    fleet.change_node(second, master_candidate=False)
    wait_until(lambda: "copies.end" in fleet.master.log("luxid"), what="the configuration is followed")
    second.paths.job_file(77).write_text("of an earlier time")
    job_ids = _run(fleet, 3)
    _archive(fleet, job_ids[0])
    fleet.until_same_queue(first)
    was_sent = [_has(second, job_id) for job_id in job_ids]

    fleet.change_node(second, master_candidate=True)

    fleet.until_same_queue(first, second)
    assert was_sent == [False] * 3


def test_with_local_replies_a_change_waits_for_nobody(tmp_path: Path) -> None:
    with _fleet(tmp_path, 'answer_after = "local"\n') as fleet:
        fleet.nodes[0].freeze()
        _run(fleet, 3)
        log = fleet.master.log("luxid")
        fleet.nodes[0].thaw()

        assert "copies.slow" not in log
        assert "copies.missing" not in log
        fleet.until_same_queue(*fleet.nodes)


def test_a_damaged_file_leaves_the_copies_of_candidates(fleet: Fleet) -> None:
    (job_id,) = _run(fleet, 1)
    fleet.until_same_queue(*fleet.nodes)
    fleet.master.kill("luxid")
    file = fleet.master.paths.job_file(job_id)
    good = file.read_bytes()
    file.write_text("{")

    fleet.master.start("luxid")
    _run(fleet, 1)

    assert (fleet.master.paths.damaged / file.name).exists()
    assert [node.paths.job_file(job_id).read_bytes() for node in fleet.nodes] == [good, good]


def test_luxid_ends_when_a_candidate_has_heard_another_master(fleet: Fleet) -> None:
    first, luxid = fleet.nodes[0], fleet.master.daemons["luxid"]
    first.kill()
    first.paths.epoch_file.write_text("7\n")
    first.start()

    def has_ended() -> bool:
        # without retries, which would wait for luxid to come back
        socket = fleet.master.paths.query_socket
        with suppress(GantryError), BlockingClient(socket, connect_timeout_s=0.1) as client:
            client.call(SubmitJob((dummy(),)))
        return luxid.poll() is not None

    wait_until(has_ended, what="luxid ends")

    assert luxid.returncode == NOT_MASTER
    assert "this node is no longer the master" in fleet.master.log("luxid")


def test_what_candidates_lack_is_told(fleet: Fleet) -> None:
    first, second = fleet.nodes
    wait_until(
        lambda: "copies: queue same on 2 nodes when last compared" in _status(fleet),
        what="the nodes were compared",
        state=lambda: _status(fleet),
    )
    first.kill()
    _run(fleet, 2)
    fleet.until_same_queue(second)

    def lags() -> dict[str, int]:
        told = json.loads(run("gantry", "--root", fleet.master.root, "status", "--output", "json").out)
        return {lag["node"]: lag["files"] for lag in told["queue_lags"]}

    # the other one lacks what is on its way to it at this moment
    wait_until(lambda: lags().keys() == {first.name}, what="only the dead one lacks something", state=lags)
    verified = run("gnt-cluster", "--root", fleet.master.root, "verify")

    assert lags()[first.name] >= 2
    assert verified.code == 1
    assert re.search(rf"copies +node '{first.name}' lacks \d+ files of the queue", verified.out)


def _status(fleet: Fleet) -> str:
    return run("gantry", "--root", fleet.master.root, "status").out


def test_one_machine_loads_nothing_for_others() -> None:
    loads = "import sys, daemons.luxid.main as main; from pathlib import Path"
    asks = (
        "from common.settingsfile import load_settings; "
        "settings = load_settings(Path('/nowhere')); assert main.node_copies(settings) is None; "
        "assert main.live_data(settings) is None; print(*sys.modules)"
    )
    program = subprocess.run([sys.executable, "-c", f"{loads}; {asks}"], capture_output=True, text=True, check=False)

    assert program.returncode == 0, program.stderr
    assert not set(FOR_NODES) & set(program.stdout.split())

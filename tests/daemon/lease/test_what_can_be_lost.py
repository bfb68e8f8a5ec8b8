"""Each row of the table "What can be lost": the master dies there, and another one follows."""

import signal
from pathlib import Path
from typing import Any

import pytest

from common.system.program import NOT_MASTER
from protocol.luxi.jobs import SubmitJob
from protocol.luxi.queue import SetJobLimits
from protocol.messages import Request
from protocol.wconfd.changes import ChangeJobLimits as SetLimits
from protocol.wconfd.config import ReadConfig
from tests.daemon.luxid.ops import dummy, gated
from tests.reliability.lease.ledgers import command, ledger_lines
from tests.support.etcds.etcd import Etcd, EtcdBinary
from tests.support.machines.playedpair import Asking, PlayedPair
from tests.support.machines.proxy import Behaviour
from tests.support.stopping import stop
from tests.support.wait import PATIENCE_S, wait_until

KEY = "key-of-the-client"
# a limit that only the late write would set
LATE = 77


def submission(pair: PlayedPair) -> SubmitJob:
    return SubmitJob((dummy(),), KEY)


def test_what_was_not_committed_has_no_answer_and_is_not_there(pair: PlayedPair) -> None:
    pair.begin(pair.first)
    pair.first.cut_from_etcd(Behaviour.RESET)
    (way,) = pair.first.etcd_ways
    taken = way.taken

    asking = pair.luxi(pair.first, submission(pair))
    wait_until(lambda: way.taken > taken, what="luxid asks etcd again")
    pair.first.crash()
    assert asking.end() is None
    pair.begin(pair.second)

    assert pair.jobs(pair.second) == {}


def test_an_unknown_answer_is_asked_for_until_it_is_known(pair: PlayedPair) -> None:
    pair.begin(pair.first)
    pair.first.cut_from_etcd(Behaviour.HALF)

    asking = pair.luxi(pair.first, submission(pair))
    pair.until_entry(pair.job_key(1))
    assert asking.is_open
    pair.first.heal()

    assert asking.end() == 1
    assert list(pair.jobs(pair.first)) == [1]


def test_what_was_committed_and_not_answered_is_there_and_its_key_has_the_id(pair: PlayedPair) -> None:
    pair.begin(pair.first)
    pair.first.cut_from_etcd(Behaviour.HALF)
    asking = pair.luxi(pair.first, submission(pair))
    pair.until_entry(pair.job_key(1))

    pair.first.crash()
    assert asking.end() is None
    pair.begin(pair.second)

    assert list(pair.jobs(pair.second)) == [1]
    assert pair.second.cluster.luxi(submission(pair)) == 1
    assert list(pair.jobs(pair.second)) == [1]
    assert pair.second.cluster.luxi(SubmitJob((dummy(),), "another key")) == 2


def test_what_was_answered_and_no_other_node_has_goes_on_there(pair: PlayedPair, tmp_path: Path) -> None:
    pair.begin(pair.first)
    pair.first.cluster.luxi(SetJobLimits(1))
    gate = tmp_path / "gate"
    running = pair.first.cluster.submit(gated(gate))
    pair.first.cluster.wait(running, status="running")
    queued = pair.first.cluster.submit(command(tmp_path, "queued", "x1", "", 0.0))
    assert not pair.second.paths.job_file(queued).exists()

    pair.first.crash()
    pair.begin(pair.second)

    assert pair.second.cluster.wait(running, queued) == ["error", "success"]
    assert [line.event for line in ledger_lines(tmp_path)] == ["enter", "leave"]


def test_what_was_answered_and_has_no_file_here_is_there_again_after_a_restart(pair: PlayedPair) -> None:
    pair.begin(pair.first)
    job_id = pair.first.cluster.submit(dummy())
    pair.first.cluster.wait(job_id)
    pair.first.cluster.kill("luxid")
    content = pair.first.paths.job_file(job_id).read_bytes()
    pair.first.paths.job_file(job_id).unlink()

    pair.first.cluster.start("luxid")

    assert pair.jobs(pair.first) == {job_id: "success"}
    assert pair.first.paths.job_file(job_id).read_bytes() == content


def test_an_end_that_was_not_committed_was_told_to_nobody_and_is_an_error(pair: PlayedPair, tmp_path: Path) -> None:
    pair.begin(pair.first)
    gate = tmp_path / "gate"
    job_id = pair.first.cluster.submit(gated(gate))
    pair.first.cluster.wait(job_id, status="running")
    pair.first.cut_from_etcd(Behaviour.RESET)

    gate.touch()
    wait_until(
        lambda: b'"success"' in pair.first.paths.job_file(job_id).read_bytes(), what="the process tells its end here"
    )
    # whoever asks meanwhile hears nothing of it
    assert pair.jobs(pair.first) == {job_id: "running"}
    pair.first.crash()
    pair.begin(pair.second)

    assert pair.second.cluster.wait(job_id) == ["error"]


def test_a_start_that_was_committed_without_a_process_is_an_error_and_runs_nowhere(
    pair: PlayedPair, tmp_path: Path
) -> None:
    pair.begin(pair.first)
    pair.first.signal(signal.SIGSTOP, "forkserver")
    job_id = pair.first.cluster.submit(command(tmp_path, "t1", "x1", "", 0.0))
    # luxid does not hear that the start is committed, so it gives no go-ahead
    pair.first.cut_from_etcd(Behaviour.HALF)
    pair.first.signal(signal.SIGCONT, "forkserver")
    pair.until_entry(pair.keys.running_job(job_id))

    pair.first.crash()
    pair.begin(pair.second)

    assert pair.second.cluster.wait(job_id) == ["error"]
    assert ledger_lines(tmp_path) == []


def test_nothing_acknowledged_is_lost_with_the_power_of_all(tmp_path: Path, etcd_binary: EtcdBinary) -> None:
    with Etcd(tmp_path / "etcd", binary=etcd_binary) as etcd, PlayedPair(tmp_path, etcd) as pair:
        pair.begin(pair.first)
        ids = [pair.first.cluster.submit(dummy()) for _ in range(3)]
        pair.first.cluster.wait(*ids)

        etcd.members[0].kill()
        pair.first.crash()
        etcd.members[0].restart()
        pair.begin(pair.second)

        assert pair.jobs(pair.second) == dict.fromkeys(ids, "success")


@pytest.mark.parametrize("daemon", ["luxid", "wconfd"])
def test_a_write_that_was_under_way_when_its_writer_was_stopped_is_refused(pair: PlayedPair, daemon: str) -> None:
    """The late write: a master stops with a transaction on its way, another one rules, then both go on.

    Its own deadline is far away: nothing but the fence keeps it from writing.
    """
    pair.begin(pair.first)
    # what is sent waits in the way
    pair.first.cut_from_etcd(Behaviour.STOP)
    is_luxid = daemon == "luxid"
    socket = pair.first.paths.query_socket if is_luxid else pair.first.paths.wconfd_socket
    request: Request[Any] = SubmitJob((dummy(),), KEY) if is_luxid else SetLimits(LATE, None)
    asking = Asking(socket, request)
    (way,) = pair.first.etcd_ways
    wait_until(lambda: way.held, what=f"{daemon} has sent its transaction")
    process = pair.first.cluster.daemons[daemon]
    stop(process.pid)

    pair.begin(pair.second)
    pair.first.heal()
    process.send_signal(signal.SIGCONT)
    process.wait(PATIENCE_S)

    assert process.returncode == NOT_MASTER
    assert asking.end() is None
    assert pair.job_key(1) not in pair.entries()
    assert pair.jobs(pair.second) == {}
    config: Any = pair.second.cluster.wconf(ReadConfig())
    assert config["cluster"]["max_running_jobs"] != LATE

"""A queue under a lease: what is acknowledged is in etcd, and survives its node (DESIGN section 14)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import GantryError
from common.ids import JobId
from common.lease.changes import WrittenFile, encode_fate
from common.lease.records import RunningJob, encode
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp
from common.queue.reasons import tries_so_far
from common.queue.terms import Hold, JobTerms, terms_entry
from protocol.blocking import BlockingClient
from protocol.etcd.kv import Put
from protocol.luxi.daemon import PrepareMove, Repair
from protocol.luxi.jobs import ArchiveJob, CancelJob, SubmitJob
from protocol.luxi.queue import AddSchedule, ListSchedules, ScheduleRequest
from tests.daemon.luxid.ops import after, command, dummy, gated
from tests.support.etcds.etcd import Etcd
from tests.support.machines.playedmasters import PlayedMasters
from tests.support.wait import wait_until

FIRST, SECOND = "node1.test", "node2.test"


@pytest.fixture
def nodes(tmp_path: Path, module_etcd: Etcd) -> Iterator[PlayedMasters]:
    with PlayedMasters(tmp_path, module_etcd) as nodes:
        yield nodes


def test_the_queue_survives_its_node(nodes: PlayedMasters, tmp_path: Path) -> None:
    old = nodes.begin(FIRST).cluster
    nodes.until_synced(SECOND)
    done, archived = old.submit(dummy()), old.submit(dummy())
    old.wait(done, archived)
    old.luxi(ArchiveJob(archived))
    nodes.until_forgotten()
    assert nodes[SECOND].paths.archived_job_file(archived).exists()

    # from here on the candidate gets no copies, so that only etcd has what follows
    nodes[SECOND].cluster.kill("noded")
    keyed = old.luxi(SubmitJob((dummy(),), key="once"))
    old.wait(keyed)
    runs = old.submit(gated(tmp_path / "gate"))
    old.wait(runs, status="running")
    waits = old.submit(dummy(depends=after(runs, wanted=("success", "error"))))
    batch = old.submit_many((dummy(depends=after(runs)),), (dummy(),))
    old.wait(batch[1])
    moved = old.submit(dummy())
    old.wait(moved)
    old.luxi(ArchiveJob(moved))
    assert {f"running/{runs}", f"dirty/queue/job-{waits}", "dirty/queue/serial"} <= nodes.entries().keys()
    old.crash()
    stranger = nodes[FIRST].paths.job_file(999)
    stranger.write_bytes(b"not acknowledged")

    new = nodes.begin(SECOND).cluster
    new.wait(waits, runs, *batch)
    assert [new.status(job) for job in (done, keyed, runs, waits, *batch)] == [
        "success",
        "success",
        "error",
        "success",
        "error",
        "success",
    ]
    assert new.luxi(SubmitJob((dummy(),), key="once")) == keyed
    assert all(nodes[SECOND].paths.archived_job_file(job).exists() for job in (archived, moved))
    last = new.submit(dummy())
    new.wait(last)
    assert last == moved + 1
    assert not any(name.startswith("running/") for name in nodes.entries())

    # the old master is a candidate now, and sets aside what it had beyond
    nodes.until_synced(FIRST)
    nodes.until_forgotten()
    assert not stranger.exists()
    (kept,) = nodes[FIRST].paths.set_aside.glob("*/queue/job-999")
    assert kept.read_bytes() == b"not acknowledged"
    assert nodes[FIRST].paths.job_file(last).read_bytes() == nodes[SECOND].paths.job_file(last).read_bytes()


@pytest.mark.parametrize("node", [FIRST, SECOND])
def test_what_was_committed_and_not_written_is_there_after_a_start(nodes: PlayedMasters, node: str) -> None:
    old = nodes.begin(FIRST).cluster
    nodes.until_synced(SECOND)
    old.submit(dummy())
    # as killed between the commit of a submission and its write, and in that of a start
    old.kill("luxid")
    queued = Job(JobId(7), (JobOp({"OP_ID": "OP_TEST_DUMMY", "reason": []}),), received_at=(1, 0))
    started = Job(
        JobId(8), queued.ops, received_at=(1, 0), livelock=f"{nodes[FIRST].paths.livelocks}/gone", process_id=1
    )
    nodes.put(
        Put(f"{nodes.keys.dirty}queue/job-7", encode_fate(WrittenFile(encode_job(queued)))),
        Put(f"{nodes.keys.dirty}queue/job-8", encode_fate(WrittenFile(encode_job(started)))),
        Put(f"{nodes.keys.dirty}queue/serial", encode_fate(WrittenFile(b"8\n"))),
        Put(nodes.keys.running_job(JobId(8)), encode(RunningJob(node=FIRST, epoch=1))),
    )
    nodes[FIRST].paths.job_file(8).write_bytes(encode_job(queued).replace(b'"id":7', b'"id":8'))
    if node == FIRST:
        old.start("luxid")
    else:
        old.crash()

    new = old if node == FIRST else nodes.begin(SECOND).cluster
    new.wait(7, 8)

    # its process was never let go on: here that is known, elsewhere it is not
    assert (new.status(7), new.status(8)) == ("success", "success" if node == FIRST else "error")
    assert new.submit(dummy()) == 9
    nodes.until_forgotten()


def test_the_end_that_a_process_wrote_while_luxid_was_dead_counts(nodes: PlayedMasters, tmp_path: Path) -> None:
    master = nodes.begin(FIRST).cluster
    job = master.submit(gated(tmp_path / "gate"))
    master.wait(job, status="running")
    master.kill("luxid")
    (tmp_path / "gate").touch()
    path = nodes[FIRST].paths.job_file(job)
    wait_until(lambda: decode_job(path.read_bytes(), "").next_index is None, what="the process has written its end")

    master.start("luxid")

    assert master.status(job) == "success"
    assert f"running/{job}" not in nodes.entries()


def test_an_old_master_that_does_not_know_it_writes_nothing(nodes: PlayedMasters) -> None:
    old = nodes.begin(FIRST).cluster
    old.wait(old.submit(dummy()))
    before = sorted(path.name for path in nodes[FIRST].paths.queue.glob("job-*"))

    nodes.keeper(FIRST).usurp(SECOND)
    # refused, or luxid has heard of it already and has ended
    with BlockingClient(nodes[FIRST].paths.query_socket) as client, pytest.raises(GantryError):
        client.call(SubmitJob((dummy(),)))

    wait_until(lambda: old.daemons["luxid"].poll() is not None, what="luxid ends")
    assert "no longer the master" in old.log("luxid")
    assert sorted(path.name for path in nodes[FIRST].paths.queue.glob("job-*")) == before
    assert not any(name.startswith("dirty/queue/job-2") for name in nodes.entries())


def test_a_command_on_a_node_outlives_the_move_of_its_master(nodes: PlayedMasters, tmp_path: Path) -> None:
    old = nodes.begin(FIRST).cluster
    nodes.until_synced(SECOND)
    gate = tmp_path / "gate"
    runs = f"echo run >> {tmp_path}/runs; until [ -e {gate} ]; do sleep 0.02; done"
    job = old.submit(command("sh", "-c", runs, node=SECOND))
    wait_until((tmp_path / "runs").exists, what="the command runs on the node")
    old.wait(job, status="running")
    with BlockingClient(nodes[FIRST].paths.query_socket) as keeper:
        keeper.call(PrepareMove(kill=False))
        assert old.status(job) == "running"
        assert not list(old.job_pids())
        old.crash()

    nodes[SECOND].cluster.kill("noded")
    new = nodes.begin(SECOND).cluster
    wait_until(lambda: "job.taken_up" in new.log("luxid"), what="the new master takes the job up")
    gate.touch()
    new.wait(job, status="success")
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_cancel_that_was_asked_for_holds_under_the_next_master(nodes: PlayedMasters, tmp_path: Path) -> None:
    old = nodes.begin(FIRST).cluster
    nodes.until_synced(SECOND)
    gate, second = tmp_path / "gate", tmp_path / "second"
    runs = f"touch {tmp_path}/runs; until [ -e {gate} ]; do sleep 0.02; done"
    job = old.submit(command("sh", "-c", runs, node=SECOND), command("touch", str(second)))
    wait_until((tmp_path / "runs").exists, what="the command runs on the node")
    old.wait(job, status="running")

    asked = old.luxi(CancelJob(job))
    old.crash()

    assert "its opcode ends by itself, what follows is canceled" in asked.message
    nodes[SECOND].cluster.kill("noded")
    new = nodes.begin(SECOND).cluster
    wait_until(lambda: "job.taken_up" in new.log("luxid"), what="the new master takes the job up")
    gate.touch()
    assert new.wait(job) == ["canceled"]
    assert not second.exists()
    assert not any(name.startswith("running/") for name in nodes.entries())


def test_tries_and_their_pauses_survive_the_move_of_the_master(nodes: PlayedMasters, tmp_path: Path) -> None:
    old = nodes.begin(FIRST).cluster
    nodes.until_synced(SECOND)
    ran = tmp_path / "ran"
    script = f"echo $GANTRY_TRY >> {ran}; [ $GANTRY_TRY != 1 ] || sleep 600"
    pauses = old.submit(command("sh", "-c", "exit 75", retries=1, retry_delay=600))
    lost = old.submit(command("sh", "-c", script, rerunnable=True))
    path = nodes[FIRST].paths.job_file(pauses)
    wait_until(lambda: tries_so_far(decode_job(path.read_bytes(), "")) == 1, what="the first try has failed")
    wait_until(lambda: f"running/{pauses}" not in nodes.entries(), what="its process has ended")
    wait_until(ran.exists, what="the other one runs")
    old.crash()

    new = nodes.begin(SECOND).cluster
    assert new.wait(lost) == ["success"]
    assert ran.read_text().split() == ["1", "2"]
    assert new.status(pauses) == "queued"
    assert [len(tries) for tries in new.job(pauses, "tries")[0]] == [1]
    new.luxi(CancelJob(pauses))
    assert new.wait(pauses) == ["canceled"]


def test_a_job_that_the_master_has_lost_is_kept_and_fetched_under_a_lease_too(nodes: PlayedMasters) -> None:
    """etcd forgets a job that all candidates have, so it is nowhere else then; schedules are there for ever."""
    master, other = nodes.begin(FIRST).cluster, nodes[SECOND].paths
    nodes.until_synced(SECOND)
    job = master.submit(dummy(reason=[terms_entry(JobTerms(hold=Hold()), 0).to_wire()]))
    master.luxi(AddSchedule(ScheduleRequest(name="nightly", cron="@daily", job=({"OP_ID": "OP_TEST_DUMMY"},))))
    nodes.until_forgotten()
    kept = other.job_file(job).read_bytes()
    master.kill("luxid")
    master.kill("wconfd")
    master.paths.job_file(job).unlink()
    master.paths.schedules_data.unlink()

    master.start("wconfd", "luxid")

    wait_until(lambda: any(other.set_aside.glob(f"*/queue/job-{job}")), what="the job is set aside")
    (row,) = master.luxi(Repair(is_dry=False)).lost
    assert (row.job, row.nodes, row.becomes, row.is_done) == (job, (SECOND,), "held", True)
    assert master.paths.job_file(job).read_bytes() == kept
    nodes.until_forgotten()
    assert other.job_file(job).read_bytes() == kept
    assert master.luxi(Repair()).lost == ()
    assert [view.schedule.name for view in master.luxi(ListSchedules())] == ["nightly"]

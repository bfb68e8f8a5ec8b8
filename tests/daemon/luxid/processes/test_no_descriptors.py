"""luxid without descriptors: no job is judged by that (DESIGN section 11, "an error of the disk or of descriptors")."""

import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from common.errors import RemoteError
from common.ids import JobId
from common.queue.explanation import Unreadable
from common.system.livelock import is_alive
from protocol.luxi.jobs import ReadJobOutput
from protocol.luxi.why import ExplainJobs
from tests.daemon.luxid.ops import after, command, dummy, read_job
from tests.support.cluster import Cluster
from tests.support.descriptors import no_descriptors
from tests.support.stopping import stop
from tests.support.wait import wait_until


def tallied(tally: Path, gate: Path) -> dict[str, Any]:
    """Leaves a line each time it runs, and ends when the gate is there."""
    return command(
        "sh", "-c", f"echo >> {shlex.quote(str(tally))}; until [ -e {shlex.quote(str(gate))} ]; do sleep 0.02; done"
    )


def runs(tally: Path) -> int:
    return len(tally.read_bytes()) if tally.exists() else 0


def submit_and_wait_begun(cluster: Cluster, tally: Path, *ops: dict[str, Any]) -> JobId:
    job_id = cluster.submit(*ops)
    cluster.wait(job_id, status="running")
    wait_until(lambda: runs(tally), what="its command has begun")
    return job_id


def luxid_of(cluster: Cluster) -> int:
    return cluster.daemons["luxid"].pid


def test_a_job_that_ends_unread_is_held_until_it_is_read_and_ends_as_it_did(cluster: Cluster) -> None:
    gate, first, second = (cluster.root / name for name in ("gate", "first", "second"))
    job_id = submit_and_wait_begun(cluster, first, tallied(first, gate), tallied(second, gate))
    dependent = cluster.submit(dummy(depends=after(job_id)))
    livelock = read_job(cluster, job_id).livelock or ""

    with no_descriptors(luxid_of(cluster)):
        gate.touch()
        wait_until(lambda: read_job(cluster, job_id).is_final, what="the job has ended")
        wait_until(lambda: not os.path.exists(livelock), what="its process is gone")
        wait_until(
            lambda: f"job.unreadable job={job_id}" in cluster.log("luxid"), what="luxid says that it cannot read"
        )
        wait_until(lambda: is_held(cluster, job_id), what="the death is noticed")
        assert cluster.status(job_id) == "running"
        assert cluster.status(dependent) == "waiting"

    assert cluster.wait(job_id, dependent) == ["success", "success"]
    assert (runs(first), runs(second)) == (1, 1)
    assert cluster.luxi(ExplainJobs((job_id,))) == ((),)


def is_held(cluster: Cluster, job_id: JobId) -> bool:
    (reasons,) = cluster.luxi(ExplainJobs((job_id,)))
    return any(isinstance(each, Unreadable) and "too many open files" in each.why for each in reasons or ())


def test_a_death_that_cannot_be_probed_is_found_when_it_can(cluster: Cluster) -> None:
    gate, tally = cluster.root / "gate", cluster.root / "tally"
    job_id = submit_and_wait_begun(cluster, tally, tallied(tally, gate))
    job = read_job(cluster, job_id)
    assert job.process_id

    # it would remove the livelock's file, which is a proof as well
    stop(cluster.daemons["wconfd"].pid)
    with no_descriptors(luxid_of(cluster)):
        cluster.kill_group(job.process_id)
        assert not is_alive(job.livelock or "")
        wait_until(lambda: "livelock.not_probed" in cluster.log("luxid"), what="luxid says that it cannot probe")
        assert cluster.status(job_id) == "running"

    assert cluster.wait(job_id) == ["error"]
    cluster.daemons["wconfd"].send_signal(signal.SIGCONT)
    assert "sweep.found_dead" not in cluster.log("luxid")
    assert runs(tally) == 1


def test_a_reader_of_output_is_told_why_it_cannot_be_read(cluster: Cluster) -> None:
    job_id = cluster.submit(command("echo", "here"))
    cluster.wait(job_id)

    with no_descriptors(luxid_of(cluster)), pytest.raises(RemoteError, match="too many open files") as refusal:
        cluster.luxi(ReadJobOutput(job_id, 0, 0.0))

    assert refusal.value.code == "unavailable"
    assert cluster.luxi(ReadJobOutput(job_id, 0, 0.0)).text == "here\n"


def test_a_damaged_file_of_a_dead_process_is_set_aside_and_its_job_ends(cluster: Cluster) -> None:
    gate, tally = cluster.root / "gate", cluster.root / "tally"
    job_id = submit_and_wait_begun(cluster, tally, tallied(tally, gate), tallied(tally, gate))
    heirs = [cluster.submit(dummy(depends=after(job_id, wanted=(wanted,)))) for wanted in ("success", "error")]
    process_id = read_job(cluster, job_id).process_id
    assert process_id
    cluster.paths.job_file(job_id).write_bytes(b'{"id": 1, "op')

    cluster.kill_group(process_id)

    assert cluster.wait(job_id, *heirs) == ["error", "error", "success"]
    assert runs(tally) == 1
    (results,) = cluster.job(job_id, "opresult")
    assert "what it did is not known" in results[0]
    assert (cluster.paths.damaged / f"job-{job_id}").read_bytes() == b'{"id": 1, "op'
    assert read_job(cluster, job_id).is_final


def test_a_job_whose_file_was_removed_is_ended_when_its_process_is(cluster: Cluster) -> None:
    gate, tally = cluster.root / "gate", cluster.root / "tally"
    job_id = submit_and_wait_begun(cluster, tally, tallied(tally, gate), tallied(tally, gate))
    process_id = read_job(cluster, job_id).process_id
    assert process_id
    cluster.paths.job_file(job_id).unlink()

    cluster.kill_group(process_id)

    assert cluster.wait(job_id) == ["error"]
    assert "there is no file" in cluster.job(job_id, "opresult")[0][0]
    assert runs(tally) == 1

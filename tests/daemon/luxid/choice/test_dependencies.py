"""Jobs that wait for others: shown as waiting, without a process, judged when those end.

Source: chained-jobs design; luxid.md 5.4; DESIGN section 11.
"""

import orjson

from protocol.luxi.jobs import ArchiveJob, CancelJob
from tests.daemon.luxid.ops import after, command, delay, dummy, gated
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def test_a_dependent_job_reads_waiting_while_its_file_says_queued(cluster: Cluster) -> None:
    first, second = cluster.submit_many((delay(60),), (dummy(depends=after(-1)),))
    cluster.wait(first, status="running")

    assert cluster.job(second, "status", "opstatus") == ("waiting", ["waiting"])
    content = orjson.loads(cluster.paths.job_file(second).read_bytes())
    assert content["ops"][0]["status"] == "queued"
    assert "process_id" not in content


def test_dependent_jobs_take_no_slot(cluster: Cluster) -> None:
    head = cluster.submit(delay(60))
    for _ in range(6):
        cluster.submit(dummy(depends=after(head)))

    assert cluster.wait(cluster.submit(dummy())) == ["success"]


def test_a_failed_dependency_fails_the_chain_with_a_text(cluster: Cluster) -> None:
    first, second, third = cluster.submit_many(
        (dummy(fail="no"),), (dummy(depends=after(-1)),), (dummy(depends=after(-1)),)
    )

    assert cluster.wait(first, second, third) == ["error"] * 3
    text = f"dependency job {second} ended with status 'error', not one of success"
    assert cluster.job(third, "opresult") == ([["OpExecError", [text]]],)


def test_a_canceled_dependency_cancels_the_chain(cluster: Cluster) -> None:
    job_ids = cluster.submit_many((delay(60),), (dummy(depends=after(-1)),), (dummy(depends=after(-1)),))
    cluster.wait(job_ids[0], status="running")

    assert cluster.luxi(CancelJob(job_ids[1])).is_done is True

    assert cluster.wait(job_ids[1], job_ids[2]) == ["canceled", "canceled"]


def test_any_end_satisfies_who_asks_for_any(cluster: Cluster) -> None:
    first, second = cluster.submit_many(
        (dummy(fail="no"),), (dummy(depends=after(-1, wanted=("success", "error", "canceled"))),)
    )

    assert cluster.wait(first, second) == ["error", "success"]


def test_an_archived_job_still_counts(cluster: Cluster) -> None:
    first = cluster.submit(dummy())
    cluster.wait(first)
    assert cluster.luxi(ArchiveJob(first))

    assert cluster.wait(cluster.submit(dummy(depends=after(first)))) == ["success"]


def test_a_named_job_that_is_gone_fails_the_job_and_is_named(cluster: Cluster) -> None:
    gone = cluster.submit(dummy())
    cluster.wait(gone)
    go = cluster.root / "go"
    job_id = cluster.submit(gated(go), dummy(depends=after(gone)))
    cluster.luxi(ArchiveJob(gone))
    cluster.paths.archived_job_file(gone).unlink()
    go.touch()

    assert cluster.wait(job_id) == ["error"]
    text = f"dependency job {gone} is neither in the queue nor in the archive"
    assert cluster.job(job_id, "opresult")[0][1] == ["OpExecError", [text]]


def test_a_job_may_name_one_that_was_there_and_is_gone(cluster: Cluster) -> None:
    """DESIGN section 11: only an id that was never given is a typing error."""
    gone = cluster.submit(dummy())
    cluster.wait(gone)
    cluster.luxi(ArchiveJob(gone))
    cluster.paths.archived_job_file(gone).unlink()

    job_id = cluster.submit(dummy(depends=after(gone)))

    assert cluster.wait(job_id) == ["error"]
    text = f"dependency job {gone} is neither in the queue nor in the archive"
    assert cluster.job(job_id, "opresult")[0][0] == ["OpExecError", [text]]


def test_a_later_opcodes_dependency_does_not_hold_back_the_first(cluster: Cluster) -> None:
    first = cluster.submit(delay(60))
    cluster.wait(first, status="running")
    job_id = cluster.submit(dummy(result=1), dummy(result=2, depends=after(first, wanted=("canceled", "error"))))

    # the first opcode waits for its locks, too, before it runs
    under_way = (["success", "waiting"],)
    wait_until(lambda: cluster.job(job_id, "opstatus") == under_way, what="the second opcode waits")
    assert cluster.status(job_id) == "waiting"

    cluster.luxi(CancelJob(first, kill=True))
    assert cluster.wait(job_id) == ["success"]
    assert cluster.job(job_id, "opresult") == ([1, 2],)


def test_no_opcode_runs_twice_when_a_job_is_continued(cluster: Cluster) -> None:
    """DESIGN section 3, invariant 5."""
    witness = cluster.root / "witness"
    note = command("sh", "-c", f"echo x >> {witness}")
    job_ids = cluster.submit_many((delay(0.3),), *[(note, dict(note, depends=after(-n))) for n in (1, 2, 3)])

    assert cluster.wait(*job_ids) == ["success"] * 4
    assert witness.read_text() == "x\n" * 6


def test_a_chain_is_run_by_events_alone(cluster: Cluster) -> None:
    """DESIGN section 3, invariant 6: no wake-up by a timer."""
    job_ids = cluster.submit_many((dummy(),), *[(dummy(depends=after(-1)),)] * 19)

    assert cluster.wait(*job_ids) == ["success"] * 20
    assert "sweep.found_dead" not in cluster.log("luxid")
    assert "start_failed" not in cluster.log("luxid")

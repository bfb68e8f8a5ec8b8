"""The rules of chained jobs one by one, as clients see them (chained-jobs design; luxid.md 5.4; DESIGN section 11)."""

from collections.abc import Sequence
from typing import Any

import pytest

from common.errors import RemoteError
from common.ids import JobId
from protocol.luxi.jobs import CancelJob, SubmitJob, SubmitManyJobs
from protocol.luxi.queries import QueryJobs
from tests.daemon.luxid.ops import after, command, delay, dummy, read_job
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

ENDS = ("success", "error", "canceled")


def end_as(cluster: Cluster, *states: str) -> list[int]:
    """A job that ends in each of these states, not ended yet; release them with `let_go`."""
    go = cluster.root / "go"
    wait_for_go = f"while ! [ -e {go} ]; do sleep 0.02; done"
    ops = {
        "success": command("sh", "-c", wait_for_go),
        "error": command("sh", "-c", f"{wait_for_go}; exit 1"),
        "canceled": delay(60, interruptible=True),
    }
    return [cluster.submit(ops[state]) for state in states]


def let_go(cluster: Cluster, heads: Sequence[int], states: Sequence[str]) -> None:
    (cluster.root / "go").touch()
    for head, state in zip(heads, states, strict=True):
        if state == "canceled":
            cluster.wait(head, status="running")
            cluster.luxi(CancelJob(JobId(head)))
    assert cluster.wait(*heads) == list(states)


def expected(end: str, wanted: tuple[str, ...]) -> str:
    """The rule in one line: met when listed, or by any end but a cancel when nothing is listed."""
    if end in wanted or (not wanted and end != "canceled"):
        return "success"
    return "canceled" if end == "canceled" else "error"


def test_each_end_against_each_list_of_wanted_ones(cluster: Cluster) -> None:
    heads = end_as(cluster, *ENDS)
    lists: list[tuple[str, ...]] = [(), ("success",), ("error",), ("canceled",), ("success", "error"), ENDS]
    cases = [(head, end, wanted) for head, end in zip(heads, ENDS, strict=True) for wanted in lists]
    jobs = [cluster.submit(dummy(depends=after(head, wanted=wanted))) for head, _, wanted in cases]
    assert {cluster.status(job_id) for job_id in jobs} == {"waiting"}

    let_go(cluster, heads, ENDS)

    assert cluster.wait(*jobs) == [expected(end, wanted) for _, end, wanted in cases]


def test_a_failed_requirement_names_the_job_its_status_and_what_was_wanted(cluster: Cluster) -> None:
    (head,) = end_as(cluster, "success")
    job_id = cluster.submit(dummy(depends=after(head, wanted=("error", "canceled"))), dummy())
    let_go(cluster, [head], ["success"])

    assert cluster.wait(job_id) == ["error"]
    text = f"dependency job {head} ended with status 'success', not one of canceled, error"
    assert cluster.job(job_id, "opresult") == ([["OpExecError", [text]], ["OpExecError", ["preceding opcode failed"]]],)


def test_all_dependencies_of_an_opcode_must_be_met(cluster: Cluster) -> None:
    heads = end_as(cluster, "success", "error")
    both = cluster.submit(dummy(depends=[*after(heads[0]), *after(heads[1], wanted=("error",))]))
    one_fails = cluster.submit(dummy(depends=after(*heads)))

    let_go(cluster, heads, ("success", "error"))

    assert cluster.wait(both, one_fails) == ["success", "error"]


def test_a_job_counts_by_all_its_opcodes_and_ends_with_its_last(cluster: Cluster) -> None:
    """A dependency is on a job, which has failed if any of its opcodes failed."""
    fails_late = cluster.submit(dummy(), dummy(), dummy(fail="no"))
    fails_early = cluster.submit(dummy(fail="no"), dummy(), dummy())
    jobs = [cluster.submit(dummy(depends=after(job_id, wanted=("error",)))) for job_id in (fails_late, fails_early)]

    assert cluster.wait(*jobs) == ["success", "success"]


def test_any_opcode_of_a_job_may_depend_and_only_that_one_waits(cluster: Cluster) -> None:
    (head,) = end_as(cluster, "success")
    job_id = cluster.submit(dummy(result=0), dummy(result=1), dummy(result=2, depends=after(head)), dummy(result=3))
    states = ["success", "success", "waiting", "queued"]
    wait_until(lambda: cluster.job(job_id, "opstatus") == (states,), what="two opcodes ran, the third waits")

    let_go(cluster, [head], ["success"])

    assert cluster.wait(job_id) == ["success"]
    assert cluster.job(job_id, "opresult") == ([0, 1, 2, 3],)


def test_each_of_several_opcodes_waits_for_its_own(cluster: Cluster) -> None:
    heads = end_as(cluster, "success", "error")
    job_id = cluster.submit(dummy(depends=after(heads[0])), dummy(depends=after(heads[1], wanted=("error",))), dummy())
    let_go(cluster, heads, ("success", "error"))

    assert cluster.wait(job_id) == ["success"]


def test_a_later_opcode_that_waits_holds_no_locks_no_process_and_no_slot(cluster: Cluster) -> None:
    (head,) = end_as(cluster, "success")
    locks = {"node/n1": "exclusive"}
    waiting = [cluster.submit(dummy(locks=locks), dummy(locks=locks, depends=after(head))) for _ in range(6)]
    for job_id in waiting:
        cluster.wait(job_id, status="waiting")
    pids = [read_job(cluster, job_id).process_id for job_id in waiting]
    wait_until(lambda: not set(pids) & set(cluster.job_pids()), what="none of them has a process")

    assert cluster.wait(cluster.submit(dummy(locks=locks))) == ["success"]
    let_go(cluster, [head], ["success"])
    assert cluster.wait(*waiting) == ["success"] * 6


def test_a_cancel_goes_down_a_chain_until_somebody_wants_it(cluster: Cluster) -> None:
    head = cluster.submit(delay(60, interruptible=True))
    a, b, c, d = cluster.submit_many(
        (dummy(depends=after(head)),),
        (dummy(depends=after(-1)),),
        (dummy(depends=after(-1, wanted=("success", "canceled"))),),
        (dummy(depends=after(-1)),),
    )
    cluster.luxi(CancelJob(head, kill=False))

    assert cluster.wait(head, a, b, c, d) == ["canceled", "canceled", "canceled", "success", "success"]
    assert cluster.job(b, "opresult") == ([None],)


def test_a_failure_goes_down_a_chain_as_a_failure(cluster: Cluster) -> None:
    (head,) = end_as(cluster, "error")
    jobs = cluster.submit_many((dummy(depends=after(head)),), (dummy(depends=after(-1)),), (dummy(depends=after(-2)),))

    let_go(cluster, [head], ["error"])

    assert cluster.wait(*jobs) == ["error"] * 3
    text = f"dependency job {jobs[0]} ended with status 'error', not one of success"
    assert cluster.job(jobs[2], "opresult") == ([["OpExecError", [text]]],)


def test_a_job_that_waits_can_be_canceled_and_its_head_goes_on(cluster: Cluster) -> None:
    (head,) = end_as(cluster, "success")
    job_id = cluster.submit(dummy(depends=after(head)))

    assert cluster.luxi(CancelJob(job_id)).is_done is True

    assert cluster.status(job_id) == "canceled"
    cluster.wait(head, status="running")
    let_go(cluster, [head], ["success"])


def test_relative_ids_reach_back_to_the_first_job_of_the_submission(cluster: Cluster) -> None:
    jobs = cluster.submit_many(
        (dummy(),), (dummy(),), (dummy(depends=after(-1, -2)),), (dummy(), dummy(depends=[[-3, []], [-2, ["success"]]]))
    )

    depends = [[op.input["depends"] for op in read_job(cluster, job_id).ops] for job_id in jobs[2:]]
    assert depends == [[after(jobs[1], jobs[0])], [None, [[jobs[0], []], [jobs[1], ["success"]]]]]
    assert cluster.wait(*jobs) == ["success"] * 4


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_impossible_dependency_refuses_its_job(cluster: Cluster, place: int) -> None:
    """Before the submission, on itself, on what comes later: so there is no cycle."""
    last: int = cluster.submit(dummy())
    for ahead in (None, -100, 1 + place, 3, 100):
        target = -place - 1 if ahead is None else max(last + ahead, 0)
        jobs: list[tuple[dict[str, Any], ...]] = [(dummy(),), (dummy(),), (dummy(),)]
        jobs[place] = (dummy(), dummy(depends=[[target, ["success"]]]))
        with pytest.raises(RemoteError):
            cluster.luxi(SubmitJob(jobs[place] if target > last else (dummy(depends=[[-1, []]]),)))
        answers = cluster.luxi_wire(SubmitManyJobs(tuple(jobs)))
        assert [answer[0] for answer in answers] == [each != place for each in range(3)]
        assert answers[place][1].startswith(f"job {place + 1}, opcode 2: ")
        last += 2

    assert cluster.paths.serial_file.read_text() == f"{last}\n"
    assert len(cluster.luxi(QueryJobs(None, ("id",)))) == last

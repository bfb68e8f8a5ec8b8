"""Jobs that a running job submits (opcodes.md, "Results"; luxid.md 5.4; chained-jobs design)."""

from typing import Any

from protocol.luxi.queries import QueryJobs
from protocol.luxi.queue import SetDrainFlag, SetJobLimits
from tests.daemon.luxid.ops import after, dummy, gated, read_job
from tests.support.cluster import Cluster


def submitted_by(cluster: Cluster, job_id: int) -> list[Any]:
    """What the job was answered for each job that it submitted, as its opcode's result says."""
    assert cluster.wait(job_id) == ["success"]
    [[result]] = cluster.job(job_id, "opresult")
    return list(result["jobs"])


def test_the_result_names_the_jobs_as_ganeti_does_and_they_all_succeed(cluster: Cluster) -> None:
    """opcodes.md: "object with key `jobs`: list of `[true, id]` or `[false, message]`"."""
    parent = cluster.submit(dummy(submit_jobs=[[dummy(result="a")], [dummy(result="b"), dummy(result="c")]], result=5))

    [[first_ok, first], [second_ok, second]] = submitted_by(cluster, parent)

    assert (first_ok, second_ok, first, second) == (True, True, parent + 1, parent + 2)
    assert cluster.job(parent, "opresult")[0][0]["value"] == 5
    assert cluster.wait(first, second) == ["success"] * 2
    assert cluster.job(second, "opresult") == (["b", "c"],)


def test_a_relative_dependency_among_them_is_kept_as_the_id_it_means(cluster: Cluster) -> None:
    jobs = [[dummy(result=1)], [dummy(result=2, depends=after(-1))], [dummy(result=3, depends=after(-1, -2))]]
    parent = cluster.submit(dummy(submit_jobs=jobs))

    first, second, third = [job_id for _, job_id in submitted_by(cluster, parent)]

    assert cluster.wait(first, second, third) == ["success"] * 3
    assert read_job(cluster, second).ops[0].input["depends"] == [[first, ["success"]]]
    assert read_job(cluster, third).ops[0].input["depends"] == [[second, ["success"]], [first, ["success"]]]
    ended = [cluster.job(job_id, "end_ts")[0] for job_id in (first, second)]
    started = [cluster.job(job_id, "start_ts")[0] for job_id in (second, third)]
    assert all(end <= start for end, start in zip(ended, started, strict=True))


def test_the_dependency_is_judged_as_any_other(cluster: Cluster) -> None:
    parent = cluster.submit(dummy(submit_jobs=[[dummy(fail="no")], [dummy(depends=after(-1))]]))

    first, second = [job_id for _, job_id in submitted_by(cluster, parent)]

    assert cluster.wait(first, second) == ["error"] * 2
    assert f"dependency job {first}" in str(cluster.job(second, "opresult"))


def test_a_job_may_wait_for_the_end_of_the_one_that_submits_it(cluster: Cluster) -> None:
    before = cluster.submit(dummy())
    parent = cluster.submit(dummy(submit_jobs=[[dummy(depends=after(before + 1))]]))

    [[_, child]] = submitted_by(cluster, parent)

    assert parent == before + 1
    assert cluster.wait(child) == ["success"]
    assert cluster.job(parent, "end_ts")[0] <= cluster.job(child, "start_ts")[0]


def test_jobs_submit_jobs_that_submit_jobs_in_a_single_slot(cluster: Cluster) -> None:
    cluster.luxi(SetJobLimits(1))
    parent = cluster.submit(dummy(submit_jobs=[[dummy(submit_jobs=[[dummy(result="leaf")]])]]))

    [[_, child]] = submitted_by(cluster, parent)
    [[_, leaf]] = submitted_by(cluster, child)

    assert cluster.wait(leaf) == ["success"]
    assert cluster.job(leaf, "opresult") == (["leaf"],)


def test_jobs_that_cannot_be_read_fail_the_opcode_and_none_of_them_exists(cluster: Cluster) -> None:
    parent = cluster.submit(dummy(submit_jobs=[[dummy()], [{"OP_ID": "OP_NO_SUCH"}]]))

    assert cluster.wait(parent) == ["error"]

    assert "OP_NO_SUCH" in str(cluster.job(parent, "opresult"))
    assert cluster.luxi(QueryJobs((), ("id",))) == ((parent,),)


def test_of_jobs_of_which_one_is_refused_the_others_are_taken(cluster: Cluster) -> None:
    # not the parent is meant, though it has the id before
    parent = cluster.submit(dummy(submit_jobs=[[dummy(depends=after(-1))], [dummy()]]))

    (is_taken, why), (_, child) = submitted_by(cluster, parent)

    assert is_taken is False
    assert "counts back among the jobs submitted together" in why
    assert cluster.wait(child) == ["success"]


def test_a_drained_queue_takes_no_jobs_of_those_that_run(cluster: Cluster) -> None:
    gate = cluster.root / "go"
    parent = cluster.submit(gated(gate), dummy(submit_jobs=[[dummy()]]))
    cluster.wait(parent, status="running")
    cluster.luxi(SetDrainFlag(True))

    gate.touch()

    assert cluster.wait(parent) == ["error"]
    assert "drained" in str(cluster.job(parent, "opresult"))
    assert cluster.luxi(QueryJobs((), ("id",))) == ((parent,),)


def test_they_inherit_priority_debug_level_and_reasons_and_say_who_submitted_them(cluster: Cluster) -> None:
    """opcodes.md 2; what an opcode says itself is kept."""
    mine = dummy(priority=10, comment="mine", reason=[["gnt:user", "own", 2]])
    who = ["gnt:user", "a round", 1]
    parent = cluster.submit(dummy(submit_jobs=[[dummy()], [mine]], priority=-10, debug_level=2, reason=[who]))

    plain, own = (read_job(cluster, job_id).ops[0].input for _, job_id in submitted_by(cluster, parent))

    [luxids] = [entry for entry in read_job(cluster, parent).ops[0].input["reason"] if entry != who]
    assert (plain["priority"], plain["debug_level"], plain["comment"]) == (-10, 2, "Submitted by OP_TEST_DUMMY")
    assert plain["reason"][:-1] == [who, luxids]
    assert (own["priority"], own["debug_level"], own["comment"]) == (10, 2, "mine")
    assert own["reason"][:-1] == [["gnt:user", "own", 2], who, luxids]

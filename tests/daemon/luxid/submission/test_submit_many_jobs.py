"""SubmitManyJobs: several jobs in one call, that may depend on each other."""

import pytest

from common.errors import RemoteError
from protocol.luxi.jobs import SubmitManyJobs
from protocol.luxi.queue import ReplaceFilter, SetDrainFlag
from tests.daemon.luxid.ops import after, delay, dummy
from tests.support.cluster import Cluster


def test_ids_are_consecutive_and_in_order(cluster: Cluster) -> None:
    cluster.submit(dummy())

    answers = cluster.luxi_wire(SubmitManyJobs(((dummy(),), (dummy(),), (dummy(),))))

    assert [list(answer) for answer in answers] == [[True, 2], [True, 3], [True, 4]]
    assert cluster.wait(2, 3, 4) == ["success"] * 3


def test_no_jobs_are_answered_by_no_ids(cluster: Cluster) -> None:
    assert cluster.luxi_wire(SubmitManyJobs(())) == []


def test_relative_dependencies_name_the_jobs_before(cluster: Cluster) -> None:
    first, second = cluster.submit_many((delay(0.2),), (dummy(depends=after(-1)),))

    (ops,) = cluster.job(second, "ops")
    assert ops[0]["depends"] == [[first, ["success"]]]
    assert cluster.wait(first, second) == ["success", "success"]
    assert cluster.job(first, "end_ts") <= cluster.job(second, "start_ts")


def test_the_design_documents_spelling_of_the_attribute_is_accepted(cluster: Cluster) -> None:
    first, second = cluster.submit_many((dummy(),), (dummy(depend=after(-1)),))

    (ops,) = cluster.job(second, "ops")
    assert ops[0]["depends"] == [[first, ["success"]]]


def test_an_opcode_that_cannot_be_read_refuses_all_and_spends_no_id(cluster: Cluster) -> None:
    """As recorded of Ganeti: `SubmitManyJobs/one-bad`."""
    with pytest.raises(RemoteError, match="job 2, opcode 2: unknown opcode"):
        cluster.luxi_wire(SubmitManyJobs(((dummy(),), (dummy(), {"OP_ID": "OP_NO"}))))

    assert cluster.submit(dummy()) == 1


def test_an_empty_job_and_one_beyond_the_bounds_refuse_only_themselves(cluster: Cluster) -> None:
    """DESIGN section 11, also when sent again."""
    jobs = ((dummy(),), (), (dummy(),) * 1001, (dummy(depends=after(-1)),), (dummy(depends=after(-4)),))

    answers = cluster.luxi_wire(SubmitManyJobs(jobs, "key"))

    assert [answer[0] for answer in answers] == [True, False, False, False, True]
    assert answers[1][1] == "job 2: a job needs at least one opcode; got an empty list"
    assert answers[2][1].startswith("job 3: the job has 1001 opcodes, of at most 1000")
    assert answers[3][1] == "job 4, opcode 1: dependency on job 3 of this submission, which was refused"
    assert (answers[0][1], answers[4][1]) == (1, 2)
    assert cluster.luxi_wire(SubmitManyJobs(jobs, "key")) == answers
    assert cluster.paths.serial_file.read_text() == "2\n"


def test_a_drained_queue_refuses_the_whole_call(cluster: Cluster) -> None:
    cluster.luxi(SetDrainFlag(True))

    with pytest.raises(RemoteError, match="drained"):
        cluster.submit_many((dummy(),))


def test_many_jobs_all_end(cluster: Cluster) -> None:
    job_ids = cluster.submit_many(*[(dummy(),)] * 60)

    assert set(cluster.wait(*job_ids)) == {"success"}
    assert "swept" not in cluster.log("luxid")
    assert "sweep.found_dead" not in cluster.log("luxid")


BAD_REFERENCE = (dummy(depends=[[-9, []]]),)
# the second is wrong, the third refers to it, the fourth to the third, the last to the first
MIXED = (
    (dummy(),),
    BAD_REFERENCE,
    (dummy(depends=after(-1)),),
    (dummy(), dummy(depends=after(-1))),
    (dummy(depends=after(-4)),),
)


def test_each_job_has_its_own_answer_and_only_who_refers_to_a_refused_one_is_refused(cluster: Cluster) -> None:
    """DESIGN section 11."""
    answers = cluster.luxi_wire(SubmitManyJobs(MIXED))

    assert [answer[0] for answer in answers] == [True, False, False, False, True]
    assert "points before the submission" in answers[1][1]
    assert answers[2][1] == "job 3, opcode 1: dependency on job 2 of this submission, which was refused"
    assert answers[3][1] == "job 4, opcode 2: dependency on job 3 of this submission, which was refused"
    assert (answers[0][1], answers[4][1]) == (1, 2)
    (ops,) = cluster.job(2, "ops")
    assert ops[0]["depends"] == after(1)
    assert cluster.wait(1, 2) == ["success", "success"]


def test_a_rule_rejects_only_the_jobs_that_it_matches(cluster: Cluster) -> None:
    predicate = ("opcode", ("==", "OP_ID", "OP_TEST_DELAY"))
    uuid = cluster.luxi(ReplaceFilter(None, 0, (predicate,), "REJECT", ()))

    answers = cluster.luxi_wire(SubmitManyJobs(((delay(1),), (dummy(),), (delay(1),))))

    assert [answer[0] for answer in answers] == [False, True, False]
    assert answers[0][1].startswith(f"rejected by filter rule {uuid}")
    assert cluster.wait(answers[1][1]) == ["success"]
    assert cluster.paths.serial_file.read_text() == "1\n"


def test_sent_again_under_its_key_each_gets_the_same_answer_also_after_a_restart(cluster: Cluster) -> None:
    first = cluster.luxi_wire(SubmitManyJobs(MIXED, "key"))
    assert cluster.luxi_wire(SubmitManyJobs(MIXED, "key")) == first

    cluster.restart("luxid")

    assert cluster.luxi_wire(SubmitManyJobs(MIXED, "key")) == first
    assert cluster.paths.serial_file.read_text() == "2\n"

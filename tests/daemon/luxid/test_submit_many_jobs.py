"""SubmitManyJobs: several jobs in one call, that may depend on each other."""

import pytest

from common.errors import RemoteError
from protocol.luxi import SetDrainFlag, SubmitManyJobs
from tests.daemon.luxid.ops import after, delay, dummy
from tests.support.cluster import Cluster


def test_ids_are_consecutive_and_in_order(cluster: Cluster) -> None:
    cluster.submit(dummy())

    answers = cluster.luxi(SubmitManyJobs(((dummy(),), (dummy(),), (dummy(),))))

    assert [list(answer) for answer in answers] == [[True, 2], [True, 3], [True, 4]]
    assert cluster.wait(2, 3, 4) == ["success"] * 3


def test_no_jobs_are_answered_by_no_ids(cluster: Cluster) -> None:
    assert cluster.luxi(SubmitManyJobs(())) == ()


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


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ((dummy(depends=[[-2, []]]),), "job 2, opcode 1: .*points before the submission"),
        ((dummy(), {"OP_ID": "OP_NO"}), "job 2, opcode 2: unknown opcode"),
        ((), "job 2: a job needs at least one opcode"),
    ],
)
def test_one_bad_job_refuses_all_and_spends_no_id(cluster: Cluster, second: tuple, text: str) -> None:
    with pytest.raises(RemoteError, match=text):
        cluster.luxi(SubmitManyJobs(((dummy(),), second)))

    assert cluster.submit(dummy()) == 1


def test_a_drained_queue_refuses_the_whole_call(cluster: Cluster) -> None:
    cluster.luxi(SetDrainFlag(True))

    with pytest.raises(RemoteError, match="drained"):
        cluster.submit_many((dummy(),))


def test_many_jobs_all_end(cluster: Cluster) -> None:
    job_ids = cluster.submit_many(*[(dummy(),)] * 60)

    assert set(cluster.wait(*job_ids)) == {"success"}
    assert "swept" not in cluster.log("luxid")
    assert "sweep.found_dead" not in cluster.log("luxid")

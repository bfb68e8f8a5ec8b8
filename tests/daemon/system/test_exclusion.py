"""Exclusive means alone, shared means together: shown by commands that run under the locks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checked import assert_all_is_free, checked_cluster
from tests.support.cluster import Cluster
from tests.support.stamps import Stamps

TIMED_OUT_S = 0.3
PATIENT_S = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with checked_cluster(tmp_path_factory.mktemp("exclusion") / "root") as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def stamps(tmp_path: Path) -> Stamps:
    return Stamps(tmp_path / "stamps")


def submit_pair(cluster: Cluster, stamps: Stamps, first: str, second: str, patience_s: float) -> list[int]:
    """Two jobs that each wait for the other, under these modes of one lock."""
    return [
        cluster.submit(stamps.meeting("a", "b", patience_s=patience_s, locks={"node/n1": first})),
        cluster.submit(stamps.meeting("b", "a", patience_s=patience_s, locks={"node/n1": second})),
    ]


def test_two_jobs_that_share_a_node_run_together(cluster: Cluster, stamps: Stamps) -> None:
    jobs = submit_pair(cluster, stamps, "shared", "shared", PATIENT_S)

    assert cluster.wait(*jobs) == ["success", "success"]


@pytest.mark.parametrize("modes", [("exclusive", "exclusive"), ("shared", "exclusive"), ("exclusive", "shared")])
def test_a_job_that_has_a_node_for_itself_never_meets_another(
    cluster: Cluster, stamps: Stamps, modes: tuple[str, str]
) -> None:
    jobs = submit_pair(cluster, stamps, *modes, TIMED_OUT_S)

    # who was first waited in vain; it had left its sign when the second came
    assert sorted(cluster.wait(*jobs)) == ["error", "success"]
    stamps.assert_never_together(jobs)
    assert_all_is_free(cluster)


def test_a_job_with_all_nodes_never_meets_one_with_a_single_node(cluster: Cluster, stamps: Stamps) -> None:
    jobs = [
        cluster.submit(stamps.meeting("a", "b", patience_s=TIMED_OUT_S, locks={"node/[lockset]": "exclusive"})),
        cluster.submit(stamps.meeting("b", "a", patience_s=TIMED_OUT_S, locks={"node/n1": "shared"})),
    ]

    assert sorted(cluster.wait(*jobs)) == ["error", "success"]
    stamps.assert_never_together(jobs)


def test_many_jobs_that_want_one_node_exclusively_run_one_after_the_other(cluster: Cluster, stamps: Stamps) -> None:
    jobs = cluster.submit_many(*[(stamps.work(seconds=0.02, locks={"node/n1": "exclusive"}),)] * 12)

    assert cluster.wait(*jobs) == ["success"] * 12
    stamps.assert_never_together(jobs)
    stamps.assert_nothing_ran_twice()
    assert_all_is_free(cluster)

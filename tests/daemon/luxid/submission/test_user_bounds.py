"""Bounds of each user, and what is reserved for operators: one user cannot fill the queue (DESIGN section 17)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.access import Role
from common.errors import RemoteError
from common.ids import JobId
from common.queue.explanation import NoFreeSlot, Reason, SlotsReserved, UserAtBound
from common.queue.terms import Hold, JobTerms, terms_entry
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import CancelJob, CancelJobs, SubmitJob, SubmitManyJobs
from protocol.luxi.why import ExplainJobs
from protocol.peer import Speaker
from tests.daemon.luxid.ops import command, dummy
from tests.support.accounts.users import ALICE, BOB, OPERATOR, Refused, call_as, needs_root
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

# of 40 places alice and bob may have 12 each, and 30 together; of 4 slots 3, and one of them 2 where others wait
SETTINGS = f"""
[luxid]
sweep_s = 3600.0
max_queued_jobs = 40
max_running_jobs = 4
predictive = false
[access]
submit = ["{ALICE}", "{BOB}"]
operate = ["{OPERATOR}"]
[limits]
max_queued_jobs_per_user = 12
reserved_queue_places = 10
reserved_running_jobs = 1
"""
HELD = [terms_entry(JobTerms(hold=Hold()), 0).to_wire()]
ONE = Speaker("one", Role.SUBMIT)
pytestmark = needs_root


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.start()
        yield cluster


def held() -> dict[str, Any]:
    return command("true", reason=HELD)


def submit_as(login: str, cluster: Cluster, *ops: dict[str, Any]) -> JobId:
    return JobId(call_as(login, cluster, SubmitJob(ops)))


def fill(login: str, cluster: Cluster, count: int) -> None:
    call_as(login, cluster, SubmitManyJobs(tuple((held(),) for _ in range(count))))


def why(login: str, cluster: Cluster, job_id: JobId) -> tuple[Reason, ...]:
    (reasons,) = call_as(login, cluster, ExplainJobs((job_id,)))
    return tuple(reasons)


def refused(login: str, cluster: Cluster, count: int = 1) -> Refused:
    with pytest.raises(Refused) as no:
        fill(login, cluster, count)
    return no.value


def test_a_user_who_has_filled_his_part_hinders_nobody_else(cluster: Cluster) -> None:
    fill(ALICE, cluster, 12)

    no = refused(ALICE, cluster)
    assert no.code == "over_limit"
    assert f"user '{ALICE}' has 12 jobs in the queue, of at most 12, and 1 more do not fit" in no.message
    assert "'max_queued_jobs_per_user' in '[limits]'" in no.message
    assert f"user '{BOB}' has 0 jobs in the queue, of at most 12, and 13" in refused(BOB, cluster, 13).message
    fill(BOB, cluster, 12)
    assert cluster.submit(dummy()) == 25


def test_the_last_places_are_for_operators_and_the_bounds_survive_a_restart(cluster: Cluster) -> None:
    fill(ALICE, cluster, 12)
    fill(BOB, cluster, 12)
    with BlockingClient(cluster.paths.query_socket) as client:
        client.call(SubmitManyJobs(tuple((dummy(reason=HELD),) for _ in range(6))), speaker=ONE)

    for _ in range(2):
        with BlockingClient(cluster.paths.query_socket) as client, pytest.raises(RemoteError) as no:
            client.call(SubmitJob((dummy(),)), speaker=ONE)
        assert no.value.code == "unavailable"
        assert no.value.wire_name == "JobQueueFull"
        assert "30 jobs of users without the role 'operate', of at most 30" in no.value.message
        assert "the last 10 places are reserved" in no.value.message
        assert refused(ALICE, cluster).code == "over_limit"
        cluster.restart("luxid")
    fill(OPERATOR, cluster, 5)
    cluster.wait(cluster.submit(dummy()))
    call_as(ALICE, cluster, CancelJob(JobId(1)))

    fill(ALICE, cluster, 1)


def test_an_urgent_job_of_root_starts_at_once_beside_a_user_who_fills_all_slots(
    cluster: Cluster,
) -> None:
    mine = [submit_as(ALICE, cluster, command("sleep", "600")) for _ in range(5)]
    wait_until(lambda: cluster.status(mine[2]) == "running", what="three of hers run")

    assert cluster.wait(cluster.submit(dummy())) == ["success"]
    assert cluster.wait(submit_as(OPERATOR, cluster, command("true"))) == ["success"]

    assert cluster.status(mine[3]) == "queued"
    told = why(ALICE, cluster, mine[3])
    assert SlotsReserved(used=3, limit=3, slots=4) in told
    assert UserAtBound(running_count=3, limit=2) in told
    assert not [each for each in told if isinstance(each, NoFreeSlot)]
    # his waits for nobody but hers, and comes before those that she submitted earlier
    his = submit_as(BOB, cluster, command("sleep", "600"))
    call_as(ALICE, cluster, CancelJob(mine[0], kill=True))
    wait_until(lambda: cluster.status(his) == "running", what="his job runs")
    assert cluster.status(mine[3]) == "queued"
    cluster.restart("luxid")
    assert SlotsReserved(used=3, limit=3, slots=4) in why(BOB, cluster, mine[3])
    call_as(ALICE, cluster, CancelJobs(tuple(mine), kill=True))
    cluster.wait(*mine)


def test_the_daemons_user_is_not_bounded(cluster: Cluster) -> None:
    cluster.luxi(SubmitManyJobs(tuple((dummy(reason=HELD),) for _ in range(40))))

    with pytest.raises(RemoteError, match="the queue holds 40 of at most 40 jobs") as no:
        cluster.submit(dummy())
    assert no.value.wire_name == "JobQueueFull"

"""Whose schedules are whose, and whose rights count when a run is due (DESIGN section 4)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from common.access import Role
from common.queue.terms import Hold, JobTerms, terms_entry
from common.schedules.schedule import Missed, RunState
from protocol.luxi.jobs import SubmitJob
from protocol.luxi.queue import (
    AddSchedule,
    ChangeSchedule,
    ListSchedules,
    PauseSchedule,
    RemoveScheduleOf,
    RunSchedule,
    ScheduleRequest,
)
from protocol.messages import Request
from protocol.peer import Speaker
from protocol.wconfd.config import PutSchedule, ReadSchedules
from tests.support.accounts.users import ADMIN, ALICE, BOB, OPERATOR, READER, Refused, call_as, needs_root
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

pytestmark = needs_root
ROLES = f"""
[luxid]
sweep_s = 3600.0
[access]
read = ["{READER}"]
submit = ["{BOB}"]
operate = ["{OPERATOR}"]
admin = ["{ADMIN}"]
"""
WITH_ALICE = ROLES.replace(f'["{BOB}"]', f'["{BOB}", "{ALICE}"]')
JOB = ({"OP_ID": "OP_RUN_COMMAND", "argv": ["id", "-un"]},)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("rights"), settings=WITH_ALICE) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


def wish(name: str) -> ScheduleRequest:
    return ScheduleRequest(name=name, every_s=3600.0, job=JOB, missed=Missed.ONCE)


def test_each_user_changes_his_own_and_operators_change_all(cluster: Cluster) -> None:
    view = call_as(ALICE, cluster, AddSchedule(wish("own")))
    assert view.schedule.user == ALICE
    calls: dict[str, Request[Any]] = {
        "paused": PauseSchedule("own", True),
        "resumed": PauseSchedule("own", False),
        "run": RunSchedule("own"),
        "removed": RemoveScheduleOf("own"),
        "changed": ChangeSchedule(wish("own")),
    }
    for deed, call in calls.items():
        with pytest.raises(Refused, match=rf"schedule 'own' cannot be {deed}: it belongs to '{ALICE}'; another user"):
            call_as(BOB, cluster, call)
    with pytest.raises(Refused, match="AddSchedule"):
        call_as(READER, cluster, AddSchedule(wish("other")))

    assert call_as(ALICE, cluster, ListSchedules())[0].schedule.job == ()
    assert call_as(ALICE, cluster, ListSchedules(0, ("none",))) == ()
    (seen,) = call_as(READER, cluster, ListSchedules(0, ("own",)))
    assert seen.schedule.job[0]["argv"] == ["id"]
    assert call_as(ALICE, cluster, ListSchedules(0, ("own",)))[0].schedule.job[0]["argv"] == ["id", "-un"]

    assert call_as(OPERATOR, cluster, PauseSchedule("own", True)).schedule.is_paused
    # by whomever it is run, the job is its user's
    job_id = call_as(OPERATOR, cluster, RunSchedule("own"))
    assert cluster.job(job_id, "user") == (ALICE,)
    assert call_as(ALICE, cluster, RemoveScheduleOf("own")) is True


def test_nobody_runs_commands_as_another_by_way_of_his_schedule(cluster: Cluster) -> None:
    call_as(ALICE, cluster, AddSchedule(wish("hers")))
    cluster.luxi(AddSchedule(wish("roots")))

    with pytest.raises(Refused, match=r"schedule 'hers' cannot get another job: it belongs to"):
        call_as(OPERATOR, cluster, ChangeSchedule(wish("hers")))
    assert call_as(OPERATOR, cluster, ChangeSchedule(ScheduleRequest(name="hers", every_s=60.0))).schedule.every_s == 60
    assert call_as(ADMIN, cluster, ChangeSchedule(wish("hers"))).schedule.user == ALICE
    with pytest.raises(Refused, match=r"schedule 'roots' cannot get another job: it belongs to"):
        call_as(ADMIN, cluster, ChangeSchedule(wish("roots")))
    with pytest.raises(Refused, match=r"schedule 'roots' cannot be changed: it belongs to"):
        call_as(ALICE, cluster, ChangeSchedule(ScheduleRequest(name="roots", every_s=60.0)))
    for name in ("hers", "roots"):
        cluster.luxi(RemoveScheduleOf(name))


def test_a_user_of_http_has_schedules_as_the_user_of_this_machine(cluster: Cluster) -> None:
    ci = Speaker("ci", role=Role.SUBMIT, login=BOB)

    view = call_as("root", cluster, AddSchedule(wish("web")), speaker=ci)

    assert (view.schedule.user, view.schedule.http_user) == (BOB, "ci")
    job_id = call_as("root", cluster, RunSchedule("web"), speaker=ci)
    assert cluster.job(job_id, "user") == (BOB,)
    with pytest.raises(Refused, match="it belongs to"):
        call_as(ALICE, cluster, RemoveScheduleOf("web"))
    assert call_as("root", cluster, RemoveScheduleOf("web"), speaker=ci) is True


def test_a_user_who_lost_his_role_has_no_runs_and_is_told(cluster: Cluster) -> None:
    call_as(ALICE, cluster, AddSchedule(wish("lost")))
    cluster.kill("luxid")
    (schedule,) = cluster.wconf(ReadSchedules())
    begin = schedule.created_at - 3600.0
    cluster.wconf(PutSchedule(attrs.evolve(schedule, created_at=begin, settled_at=begin)))
    cluster.configure(ROLES)

    cluster.start("luxid")

    wait_until(lambda: cluster.wconf(ReadSchedules())[0].runs, what="the run is settled")
    (run,) = cluster.wconf(ReadSchedules())[0].runs
    assert (run.state, run.job_id) == (RunState.REFUSED, None)
    assert f"a submission of '{ALICE}'" in run.why
    assert "run.refused schedule=lost" in cluster.log("luxid")
    # tests come in any order
    cluster.luxi(RemoveScheduleOf("lost"))
    cluster.configure(WITH_ALICE)
    cluster.restart("luxid")


def test_bytes_of_all_schedules_of_a_user_are_bounded_together(tmp_path: Path) -> None:
    """Their file is written whole at each change and each run of anybody's schedule."""

    def job(size: int) -> tuple[dict[str, Any], ...]:
        return ({"OP_ID": "OP_RUN_COMMAND", "argv": ["echo", "x" * size]},)

    def sized(name: str, size: int) -> ScheduleRequest:
        return attrs.evolve(wish(name), job=job(size))

    bounds = "[limits]\nmax_schedule_bytes_per_user = 1000\n"
    with Cluster(tmp_path / "s", settings=WITH_ALICE + bounds) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        call_as(ALICE, cluster, AddSchedule(sized("one", 400)))
        call_as(ALICE, cluster, AddSchedule(sized("two", 300)))

        for _ in range(2):
            with pytest.raises(Refused, match=rf"user '{ALICE}' has other schedules with jobs of 7\d\d bytes") as full:
                call_as(ALICE, cluster, AddSchedule(sized("three", 200)))
            assert full.value.code == "over_limit"
            with pytest.raises(Refused, match="'max_schedule_bytes_per_user' in '\\[limits\\]'"):
                call_as(ALICE, cluster, ChangeSchedule(sized("one", 700)))
            with pytest.raises(Refused, match="has other schedules with jobs of 4"):
                call_as(ADMIN, cluster, ChangeSchedule(sized("two", 700)))
            cluster.restart("luxid")
        call_as(BOB, cluster, AddSchedule(sized("his", 700)))
        cluster.luxi(AddSchedule(sized("roots", 5000)))
        call_as(ALICE, cluster, PauseSchedule("one", True))
        call_as(ALICE, cluster, ChangeSchedule(sized("one", 10)))
        call_as(ALICE, cluster, AddSchedule(sized("three", 200)))


def test_number_and_bytes_of_a_user_are_bounded(tmp_path: Path) -> None:
    bounds = "[limits]\nmax_schedules_per_user = 2\nmax_schedule_bytes = 500\nmax_queued_jobs_per_user = 1\n"
    large = ({"OP_ID": "OP_RUN_COMMAND", "argv": ["echo", "x" * 500]},)
    with Cluster(tmp_path / "b", settings=WITH_ALICE + bounds) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        for name in ("one", "two"):
            call_as(ALICE, cluster, AddSchedule(wish(name)))

        with pytest.raises(Refused) as full:
            call_as(ALICE, cluster, AddSchedule(wish("three")))
        with pytest.raises(Refused, match=r"its job has \d{3} bytes, of at most 500") as too_large:
            call_as(ALICE, cluster, ChangeSchedule(attrs.evolve(wish("one"), job=large)))

        assert full.value.code == "over_limit"
        assert f"user '{ALICE}' has 2 schedules, of at most 2" in full.value.message
        assert too_large.value.code == "invalid"
        # others have room, root has no bounds, and who removes one has room again, also after a restart
        call_as(BOB, cluster, AddSchedule(wish("his")))
        for name in ("a", "b", "c"):
            cluster.luxi(AddSchedule(attrs.evolve(wish(name), job=large)))
        cluster.restart("luxid")
        with pytest.raises(Refused, match="has 2 schedules"):
            call_as(ALICE, cluster, AddSchedule(wish("three")))
        assert call_as(ALICE, cluster, RemoveScheduleOf("one")) is True
        call_as(ALICE, cluster, AddSchedule(wish("three")))
        # its runs are bounded as submissions are
        held = {"OP_ID": "OP_TEST_DUMMY", "reason": [terms_entry(JobTerms(hold=Hold()), 0).to_wire()]}
        call_as(ALICE, cluster, SubmitJob((held,)))
        with pytest.raises(Refused, match="has 1 jobs in the queue, of at most 1"):
            call_as(ALICE, cluster, RunSchedule("two"))

"""Schedules with real daemons: they run, are kept, overlap as they say, and no run has two jobs (everyday.md c)."""

import contextlib
import itertools
import signal
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from common.errors import GantryError
from common.ids import JobId
from common.schedules.schedule import Missed, Overlap, RunState, Schedule, ScheduleRun
from protocol.luxi.jobs import CancelJob
from protocol.luxi.queries import QueryJobs
from protocol.luxi.queue import (
    AddSchedule,
    ChangeSchedule,
    ListSchedules,
    PauseSchedule,
    RemoveScheduleOf,
    RunSchedule,
    ScheduleRequest,
    ScheduleView,
    SetDrainFlag,
)
from protocol.wconfd.config import PutSchedule, ReadSchedules
from tests.daemon.luxid.schedules.brittleluxid import AFTER, BEFORE
from tests.support.cluster import Cluster
from tests.support.wait import PATIENCE_S, wait_until

QUICK = ({"OP_ID": "OP_TEST_DELAY", "duration": 0.0},)
LONG = ({"OP_ID": "OP_RUN_COMMAND", "argv": ["sleep", "1000"]},)
DAY = 86400.0


class Daemons(Cluster):
    """Daemons for all tests, each of which has schedules and jobs of its own."""

    # jobs up to this one are of tests before
    last_before = 0


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    settings = "[luxid]\nmax_running_jobs = 20\nkill_grace_s = 0.5\nsweep_s = 3600.0\n"
    with Daemons(tmp_path_factory.mktemp("schedules"), settings=settings) as cluster:
        cluster.modules = {"luxid": "tests.daemon.luxid.schedules.brittleluxid"}
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


@pytest.fixture
def cluster(daemons: Daemons) -> Iterator[Daemons]:
    daemons.last_before = max((row[0] for row in daemons.luxi_wire(QueryJobs((), ("id",)))), default=0)
    yield daemons
    for name in {"wconfd", "luxid"} - daemons.daemons.keys():
        daemons.start(name)
    views = daemons.luxi(ListSchedules(0))
    for view in views:
        daemons.luxi(RemoveScheduleOf(view.schedule.name))
        if view.active_job is not None:
            daemons.luxi(CancelJob(view.active_job, kill=True))
    if any(view.schedule.every_s == 1.0 and not view.schedule.is_paused for view in views):
        # a run may be under way, whose job the next test would count
        daemons.restart("luxid")


def add(cluster: Daemons, name: str = "s", every_s: float = 1.0, job: Any = QUICK, **wish: Any) -> ScheduleView:
    if "cron" not in wish:
        wish["every_s"] = every_s
    return cluster.luxi(AddSchedule(ScheduleRequest(name=name, job=job, **wish)))


def kept(cluster: Daemons, name: str = "s") -> Schedule:
    return next(each for each in cluster.wconf(ReadSchedules()) if each.name == name)


def runs(cluster: Daemons, state: RunState = RunState.SUBMITTED, name: str = "s") -> list[ScheduleRun]:
    return [run for run in kept(cluster, name).runs if run.state is state]


def until_runs(
    cluster: Daemons, count: int, state: RunState = RunState.SUBMITTED, name: str = "s"
) -> list[ScheduleRun]:
    wait_until(
        lambda: len(runs(cluster, state, name)) >= count,
        what=f"{count} runs are {state.value}",
        state=lambda: (kept(cluster, name).runs, cluster.log("luxid")[-2000:]),
    )
    return runs(cluster, state, name)


def until_next_run(cluster: Daemons, name: str = "s") -> None:
    """Wait for one more run, however many are kept."""
    began = time.time()
    wait_until(
        lambda: any(run.nominal_at > began for run in runs(cluster, name=name)),
        what="the next run is submitted",
        state=lambda: (kept(cluster, name).runs, cluster.log("luxid")[-2000:]),
    )


def rewind(cluster: Daemons, by_s: float) -> None:
    """Let wconfd have a schedule that is settled for less, as if luxid had been away since; it is down."""
    schedule = kept(cluster)
    settled_at, created_at = schedule.settled_at - by_s, schedule.created_at - by_s
    cluster.wconf(PutSchedule(attrs.evolve(schedule, settled_at=settled_at, created_at=created_at)))


def job_of(run: ScheduleRun) -> JobId:
    assert run.job_id is not None
    return run.job_id


def state_of(cluster: Daemons, run: ScheduleRun) -> str:
    ((state,),) = cluster.luxi(QueryJobs((job_of(run),), ("status",)))
    return str(state)


def jobs_of(cluster: Daemons, name: str = "s") -> list[JobId]:
    """All jobs with the schedule's label, whatever the schedule knows."""
    found = cluster.luxi_wire(QueryJobs((), ("id", "ops")))
    label = f'"labels":{{"schedule":"{name}"}}'
    mine = [row for row in found if row[0] > cluster.last_before]
    return [JobId(row[0]) for row in mine if any(label in entry[1] for entry in row[1][0]["reason"])]


def until_state(cluster: Daemons, run: ScheduleRun, state: str) -> None:
    wait_until(
        lambda: state_of(cluster, run) == state,
        what=f"job {run.job_id} is {state}",
        state=lambda: cluster.log("luxid")[-1500:],
    )


def test_a_schedule_runs_under_its_name_rests_goes_on_and_is_removed(cluster: Daemons) -> None:
    view = add(cluster)
    assert [later - at for at, later in itertools.pairwise(view.next_at)] == [1.0, 1.0]

    made = until_runs(cluster, 2)

    assert len({run.job_id for run in made}) == len(made)
    nominal = [run.nominal_at for run in kept(cluster).runs]
    assert nominal == sorted(set(nominal))
    assert all((at - view.schedule.created_at) % 1 == 0 for at in nominal)
    ((ops,),) = cluster.luxi_wire(QueryJobs((job_of(made[0]),), ("ops",)))
    assert any(entry[1] == '{"name":"s","labels":{"schedule":"s"}}' for entry in ops[0]["reason"])

    assert cluster.luxi(PauseSchedule("s", is_paused=True)).next_at == ()
    paused_at = time.time()
    job_id = cluster.luxi(RunSchedule("s", "k"))
    # sent again: the same run
    assert cluster.luxi(RunSchedule("s", "k")) == job_id
    by_hand = [run for run in kept(cluster).runs if run.is_by_hand]
    assert [run.job_id for run in by_hand] == [job_id]
    # one may have been under way
    assert all(run.nominal_at <= paused_at for run in kept(cluster).runs if not run.is_by_hand)

    assert cluster.luxi(PauseSchedule("s", is_paused=False)).next_at
    until_next_run(cluster)
    assert cluster.luxi(RemoveScheduleOf("s")) is True
    assert cluster.luxi(RemoveScheduleOf("s")) is False
    assert cluster.wconf(ReadSchedules()) == ()
    with pytest.raises(GantryError, match="there is no schedule 's'"):
        cluster.luxi(RunSchedule("s"))


def test_runs_that_meet_do_as_their_schedule_says(cluster: Daemons) -> None:
    for overlap in Overlap:
        add(cluster, overlap.value, job=LONG, overlap=overlap)

    (skipped, *_) = until_runs(cluster, 1, RunState.SKIPPED, "skip")
    (only,) = runs(cluster, name="skip")
    assert skipped.why == f"job {only.job_id} of the run before has not ended"

    first, second = until_runs(cluster, 2, name="allow")[:2]
    # before its jobs take all places
    cluster.luxi(PauseSchedule("allow", is_paused=True))
    until_state(cluster, first, "running")
    until_state(cluster, second, "running")

    first, second = until_runs(cluster, 2, name="cancel-running")[:2]
    until_state(cluster, first, "canceled")
    wait_until(lambda: state_of(cluster, second) in ("running", "canceled"), what="the second runs after the first")
    cluster.luxi(PauseSchedule("cancel-running", is_paused=True))

    (skipped, *_) = until_runs(cluster, 1, RunState.SKIPPED, "queue")
    first, second = runs(cluster, name="queue")
    assert skipped.why == f"job {first.job_id} has not ended, and job {second.job_id} waits for it already"
    # a schedule that is removed leaves the job that waits
    cluster.luxi(RemoveScheduleOf("queue"))
    assert state_of(cluster, second) == "waiting"
    cluster.luxi(CancelJob(job_of(first), kill=True))
    until_state(cluster, second, "running")
    for job_id in (job_of(second), *jobs_of(cluster, "allow")):
        cluster.luxi(CancelJob(job_id, kill=True))


def test_a_missed_run_is_made_up_for_once_or_not_as_it_says(cluster: Daemons) -> None:
    add(cluster, cron="@daily", missed=Missed.ONCE)
    cluster.kill("luxid")
    # up to 23 h 59 min ago, so later than a punctual run, but for a minute after midnight
    rewind(cluster, 400 * DAY)
    cluster.start("luxid")

    (made,) = until_runs(cluster, 1)
    (missed,) = runs(cluster, RunState.SKIPPED)

    assert made.nominal_at - missed.nominal_at == DAY
    assert "only the last one counts" in missed.why
    assert len(jobs_of(cluster)) == 1

    cluster.kill("luxid")
    # now it is an hour late
    begin = time.time() // 1 - 3 * 3600
    late = attrs.evolve(kept(cluster), missed=Missed.SKIP, cron="", every_s=7200.0, created_at=begin, settled_at=begin)
    cluster.wconf(PutSchedule(late))
    cluster.start("luxid")
    until_runs(cluster, 2, RunState.SKIPPED)
    assert "missed by" in runs(cluster, RunState.SKIPPED)[-1].why
    assert len(jobs_of(cluster)) == 1


def test_a_schedule_whose_words_change_makes_up_for_nothing(cluster: Daemons) -> None:
    before = add(cluster, cron="@daily", missed=Missed.ONCE).schedule

    view = cluster.luxi(ChangeSchedule(ScheduleRequest(name="s", cron="0 4 * * *", zone="Europe/Athens")))

    assert view.schedule.settled_at > before.settled_at
    assert (view.schedule.cron, view.schedule.zone, view.schedule.job) == ("0 4 * * *", "Europe/Athens", before.job)
    for wish, says in (
        ({"cron": "61 * * * *"}, "'61' for the minute is not understood"),
        ({"zone": "Europe/Atlantis"}, "unknown time zone"),
        ({"every_s": 0.5}, "an interval has whole seconds"),
        ({"job": ({"OP_ID": "OP_TEST_NONE"},)}, "OP_TEST_NONE"),
    ):
        with pytest.raises(GantryError, match=says):
            cluster.luxi(ChangeSchedule(ScheduleRequest(name="s", **wish)))
    assert kept(cluster) == view.schedule
    assert jobs_of(cluster) == []


def test_what_hinders_everybody_is_no_verdict_on_a_run(cluster: Daemons) -> None:
    cluster.luxi(SetDrainFlag(drain=True))
    add(cluster, every_s=3600.0)
    cluster.kill("luxid")
    rewind(cluster, 3600.0)
    cluster.start("luxid")
    wait_until(lambda: "run.hindered" in cluster.log("luxid"), what="it is hindered")
    assert kept(cluster).runs == ()
    assert jobs_of(cluster) == []

    cluster.luxi(SetDrainFlag(drain=False))

    until_runs(cluster, 1)


def test_a_schedule_with_an_unknown_zone_stops_says_so_and_the_others_go_on(cluster: Daemons) -> None:
    add(cluster)
    add(cluster, "lost", cron="@daily", zone="Europe/Athens")
    lost = kept(cluster, "lost")
    cluster.kill("luxid")
    cluster.wconf(PutSchedule(attrs.evolve(lost, zone="Europe/Atlantis")))
    cluster.start("luxid")

    until_runs(cluster, 1)

    views = {view.schedule.name: view for view in cluster.luxi(ListSchedules())}
    assert views["lost"].stopped.startswith("unknown time zone 'Europe/Atlantis'")
    assert (views["lost"].next_at, views["s"].stopped) == ((), "")
    assert "schedule.stopped" in cluster.log("luxid")


def test_daemons_end_and_start_and_no_run_has_two_jobs_or_is_lost(cluster: Daemons) -> None:
    add(cluster)
    for name, number in (("luxid", signal.SIGKILL), ("wconfd", signal.SIGKILL), ("luxid", signal.SIGTERM)):
        until_next_run(cluster)
        cluster.restart(name, number)
    until_next_run(cluster)
    cluster.luxi(PauseSchedule("s", is_paused=True))

    def made() -> list[JobId]:
        return [job_of(run) for run in runs(cluster)]

    # one may be under way
    wait_until(
        lambda: sorted(made())[-5:] == jobs_of(cluster)[-5:],
        what="each job is one of a run",
        state=lambda: (made(), jobs_of(cluster)),
    )
    wait_until(lambda: not cluster.luxi(ListSchedules())[0].active_job, what="all have ended")
    assert len(set(made())) == len(made())
    assert [run.nominal_at for run in kept(cluster).runs] == sorted({run.nominal_at for run in kept(cluster).runs})


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_luxid_is_killed_between_due_and_settled_and_the_run_has_one_job(cluster: Daemons, when: str) -> None:
    add(cluster, every_s=3600.0, missed=Missed.ONCE)
    cluster.kill("luxid")
    rewind(cluster, 3600.0)
    mark = cluster.root / when
    mark.touch()
    with contextlib.suppress(AssertionError, OSError):
        # it may be killed before it says that it is ready
        cluster.start("luxid")
    if "luxid" in cluster.daemons:
        cluster.daemons.pop("luxid").wait(PATIENCE_S)
    mark.unlink()
    assert kept(cluster).runs == ()

    cluster.start("luxid")

    (run,) = until_runs(cluster, 1)
    assert jobs_of(cluster) == [run.job_id]
    assert ("submission.repeated" in cluster.log("luxid").rpartition("queue.read ")[2]) is (when == AFTER)

"""Schedules whose master dies between the submission of a run and its settling (DESIGN sections 14 and 16)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from common.schedules.schedule import Missed, RunState
from protocol.luxi.queries import QueryJobs
from protocol.luxi.queue import AddSchedule, ListSchedules, PauseSchedule, ScheduleRequest
from protocol.wconfd.config import PutSchedule, ReadSchedules
from tests.daemon.luxid.schedules.brittleluxid import AFTER
from tests.support.etcds.etcd import Etcd
from tests.support.machines.playedmasters import PlayedMasters
from tests.support.wait import PATIENCE_S, wait_until

FIRST, SECOND = "node1.test", "node2.test"
JOB = ({"OP_ID": "OP_TEST_DELAY", "duration": 0.0},)


@pytest.fixture
def nodes(tmp_path: Path, module_etcd: Etcd) -> Iterator[PlayedMasters]:
    with PlayedMasters(tmp_path, module_etcd) as nodes:
        yield nodes


def test_the_next_master_has_every_schedule_and_makes_no_run_twice(nodes: PlayedMasters) -> None:
    old = nodes.begin(FIRST).cluster
    nodes.until_synced(SECOND)
    # from here on only etcd has what follows
    nodes[SECOND].cluster.kill("noded")
    old.luxi(AddSchedule(ScheduleRequest(name="due", every_s=3600.0, job=JOB, missed=Missed.ONCE)))
    old.luxi(AddSchedule(ScheduleRequest(name="resting", cron="@daily", zone="Europe/Athens", job=JOB)))
    old.luxi(PauseSchedule("resting", True))
    old.kill("luxid")
    due = next(each for each in old.wconf(ReadSchedules()) if each.name == "due")
    begin = due.created_at - 3600.0
    old.wconf(PutSchedule(attrs.evolve(due, created_at=begin, settled_at=begin)))
    (old.root / AFTER).touch()
    old.modules = {**old.modules, "luxid": "tests.daemon.luxid.schedules.brittleluxid"}
    with contextlib.suppress(AssertionError, OSError):
        old.start("luxid")
    if "luxid" in old.daemons:
        old.daemons.pop("luxid").wait(PATIENCE_S)
    assert next(each for each in old.wconf(ReadSchedules()) if each.name == "due").runs == ()
    old.crash()

    new = nodes.begin(SECOND).cluster

    def runs() -> list[tuple[RunState, int | None]]:
        schedule = next(each for each in new.wconf(ReadSchedules()) if each.name == "due")
        return [(run.state, run.job_id) for run in schedule.runs]

    wait_until(runs, what="the run is settled", state=lambda: new.log("luxid")[-2000:])
    ((job_id,),) = new.luxi(QueryJobs((), ("id",)))
    assert runs() == [(RunState.SUBMITTED, job_id)]
    resting = next(view for view in new.luxi(ListSchedules()) if view.schedule.name == "resting")
    assert (resting.schedule.is_paused, resting.schedule.zone) == (True, "Europe/Athens")

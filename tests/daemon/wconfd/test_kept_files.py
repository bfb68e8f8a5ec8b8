"""Schedules and resources in wconfd: durable, told, refused when damaged; on candidates as well (DESIGN section 16)."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest
import trio

from common.errors import GantryError
from common.ids import JobId
from common.resources import Resource
from common.schedules.schedule import RunState, ScheduleRun
from protocol.blocking import BlockingClient
from protocol.subscriptions import KeptChanged, Snapshot, WconfdEvents
from protocol.wconfd.config import (
    PutSchedule,
    ReadResources,
    ReadSchedules,
    RemoveResourceTotal,
    RemoveSchedule,
    SetResourceTotal,
    Settlement,
    SettleRuns,
)
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.keptvalues import LICENCES, MEMORY, NIGHTLY
from tests.support.machines.fleet import Fleet
from tests.support.wait import PATIENCE_S, wait_until

NEW = attrs.evolve(NIGHTLY, runs=(), settled_at=1.0)


def on_disk(path: Path) -> Any:
    return orjson.loads(path.read_bytes())


def client_of(cluster: Cluster) -> BlockingClient:
    return BlockingClient(cluster.paths.wconfd_socket)


def test_what_is_set_is_on_disk_and_there_after_a_kill(cluster: Cluster) -> None:
    with client_of(cluster) as client:
        client.call(SetResourceTotal(MEMORY))
        client.call(SetResourceTotal(LICENCES))
        client.call(SetResourceTotal(attrs.evolve(LICENCES, total=6)))
        client.call(PutSchedule(NEW))
        run = ScheduleRun(90.0, RunState.SUBMITTED, JobId(3))
        for _ in range(2):
            client.call(SettleRuns((Settlement("u1", run, 90.0), Settlement("gone", run, 90.0))))
        # a change keeps the runs
        client.call(PutSchedule(attrs.evolve(NEW, cron="1 2 * * *", settled_at=95.0)))
        cluster.kill("wconfd")
        assert [row["name"] for row in on_disk(cluster.paths.resources_data)["resources"]] == ["licences", "memory"]

        cluster.start("wconfd")

        assert client.call(ReadResources()) == (attrs.evolve(LICENCES, total=6), MEMORY)
        assert client.call(ReadSchedules()) == (attrs.evolve(NEW, cron="1 2 * * *", settled_at=95.0, runs=(run,)),)
        assert client.call(RemoveSchedule("u1")) is True
        assert client.call(RemoveSchedule("u1")) is False
        assert client.call(RemoveResourceTotal("web1", "memory")) is True
        assert client.call(RemoveResourceTotal("web1", "memory")) is False
    assert on_disk(cluster.paths.schedules_data)["schedules"] == []


def test_names_and_totals_that_cannot_be_are_refused(cluster: Cluster) -> None:
    with client_of(cluster) as client:
        client.call(PutSchedule(NEW))
        with pytest.raises(GantryError, match="there is a schedule 'nightly' already"):
            client.call(PutSchedule(attrs.evolve(NEW, uuid="u2")))
        for resource in (Resource("", "Licences", 1), Resource("a b", "kits", 1), Resource("", "kits", -1)):
            with pytest.raises(GantryError, match=r"no resource can be named|total of 'kits' must be"):
                client.call(SetResourceTotal(resource))
        assert client.call(ReadResources()) == ()
    assert not cluster.paths.resources_data.exists()


@pytest.mark.trio
async def test_changes_are_told_and_settled_runs_are_not(cluster: Cluster) -> None:
    events = WconfdEvents(cluster.paths.wconfd_socket)
    assert isinstance(await events.next(), Snapshot)

    def change() -> None:
        with client_of(cluster) as client:
            client.call(PutSchedule(NEW))
            client.call(SettleRuns((Settlement("u1", ScheduleRun(9.0, RunState.SKIPPED, why="x"), 9.0),)))
            client.call(SetResourceTotal(LICENCES))
            client.call(SetResourceTotal(LICENCES))
            client.call(RemoveSchedule("u1"))

    await trio.to_thread.run_sync(change)

    with trio.fail_after(PATIENCE_S):
        found = [await events.next() for _ in range(3)]
    assert found == [KeptChanged("schedules"), KeptChanged("resources"), KeptChanged("schedules")]
    await events.aclose()


def test_a_damaged_file_stops_the_daemon_and_says_what_to_do(idle: Cluster) -> None:
    path = idle.paths.schedules_data
    path.write_bytes(b'{"version":1,"schedules":[{}]}')
    command = [sys.executable, "-P", "-m", "daemons.wconfd.main"]
    environment = {"PYTHONPATH": str(CHECKOUT)}

    ended = subprocess.run(
        [*command, "--root", str(idle.root)], env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    checked = subprocess.run(
        [*command, "--check", str(path)], env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )

    assert ended.returncode == 1
    assert f"'{path}': the schedules are damaged at $.schedules[0]: " in ended.stderr
    assert f"or start without schedules: 'mv {path} {path}.damaged'" in ended.stderr
    assert path.read_bytes() == b'{"version":1,"schedules":[{}]}'
    assert checked.returncode == 1
    assert checked.stdout.startswith(f"{path}: $.schedules[0]: ")


def test_candidates_have_both_files_byte_for_byte(tmp_path: Path) -> None:
    def same(name: str) -> bool:
        places = [paths.data / name for paths in (fleet.master.paths, fleet.nodes[0].paths)]
        return all(place.exists() for place in places) and len({place.read_bytes() for place in places}) == 1

    with Fleet(tmp_path, 1) as fleet:
        fleet.start()
        fleet.until_same(*fleet.nodes)

        fleet.master.wconf(PutSchedule(NEW))
        fleet.master.wconf(SetResourceTotal(MEMORY))

        wait_until(lambda: same("schedules.data") and same("resources.data"), what="both are copied")
        fleet.nodes[0].kill()
        run = ScheduleRun(90.0, RunState.SKIPPED, why="missed")
        fleet.master.wconf(SettleRuns((Settlement("u1", run, 90.0),)))
        assert not same("schedules.data")
        fleet.nodes[0].start()
        wait_until(lambda: same("schedules.data"), what="the run is copied once the node is back")

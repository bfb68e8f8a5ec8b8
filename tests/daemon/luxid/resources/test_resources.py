"""Counted resources with real daemons: one after the other, given back by the proof of death, and adopted.

Source: DESIGN section 16; everyday.md section e.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from common.errors import GantryError, RemoteError
from common.ids import JobId
from common.queue.explanation import SHORTEST_S, LacksUnits, Reason, WaitKind
from common.resources import Resource
from protocol.luxi.jobs import CancelJob
from protocol.luxi.queue import ReadResourceUse, RemoveResource, SetResource
from protocol.luxi.why import ExplainJobs, ReadJobWaits
from protocol.wconfd import config as wconfd_resources
from tests.daemon.luxid.ops import command, delay, gated, process_of
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = "[luxid]\nkill_grace_s = 0.3\nsweep_s = 3600.0\nmax_unit_bypass = 2\n"
    with Cluster(tmp_path_factory.mktemp("resources") / "root", settings=settings) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    """Without resources, and nobody has units."""

    def users() -> list[object]:
        return [each.users for each in started.luxi(ReadResourceUse()) if each.users]

    wait_until(lambda: not users(), what="all units are free", state=users)
    for each in started.luxi(ReadResourceUse()):
        started.luxi(RemoveResource(each.resource.node, each.resource.name))
    return started


def using(op: dict[str, Any], **uses: int) -> dict[str, Any]:
    """The opcode of a job that uses these resources; `web1__memory` is that of a node."""
    named = {key.replace("__", ":"): count for key, count in uses.items()}
    return {**op, "reason": [["gantry:terms", orjson.dumps({"uses": named}).decode(), 1]]}


def set_total(cluster: Cluster, name: str, total: int, node: str = "") -> None:
    cluster.luxi(SetResource(Resource(node, name, total)))


def used(cluster: Cluster, key: str = "licences") -> dict[JobId, int]:
    uses = {each.resource.key: dict(each.users) for each in cluster.luxi(ReadResourceUse())}
    return uses[key]


def why(cluster: Cluster, job_id: JobId) -> tuple[Reason, ...]:
    (reasons,) = cluster.luxi(ExplainJobs((job_id,)))
    return reasons or ()


def lacks(cluster: Cluster, job_id: JobId) -> LacksUnits | None:
    return next((each for each in why(cluster, job_id) if isinstance(each, LacksUnits)), None)


def has_waited_for_units(cluster: Cluster, job_id: JobId) -> bool:
    """Whether it has waited for so long that the histories will tell it."""
    (spans,) = cluster.luxi(ReadJobWaits((job_id,)))
    told = [span.since for span in spans or () if span.cause.kind is WaitKind.RESOURCE]
    return bool(told) and time.time() - told[0] > SHORTEST_S


def begun(cluster: Cluster, job_id: JobId) -> None:
    wait_until(lambda: cluster.status(job_id) == "running", what=f"job {job_id} runs")


def test_two_jobs_for_one_licence_run_one_after_the_other(cluster: Cluster, tmp_path: Path) -> None:
    set_total(cluster, "licences", 1)
    gate = tmp_path / "gate"
    first = cluster.submit(using(gated(gate), licences=1))
    begun(cluster, first)
    second = cluster.submit(using(command("true"), licences=1))
    free = cluster.submit(command("true"))

    cluster.wait(free, status="success")

    assert cluster.status(second) == "queued"
    assert lacks(cluster, second) == LacksUnits("licences", 1, 0, 1, (first,))
    assert used(cluster) == {first: 1}
    (row,) = cluster.luxi(ReadResourceUse())
    assert row.waiting == 1
    wait_until(lambda: has_waited_for_units(cluster, second), what="that is worth telling")
    gate.touch()
    cluster.wait(first, second, status="success")
    wait_until(lambda: used(cluster) == {}, what="the units are free")
    (spans,) = cluster.luxi(ReadJobWaits((second,)))
    assert WaitKind.RESOURCE in [span.cause.kind for span in spans or ()]


def test_a_command_is_told_what_its_job_uses(cluster: Cluster, tmp_path: Path) -> None:
    set_total(cluster, "licences", 3)
    set_total(cluster, "memory", 8, "web1")
    there = tmp_path / "there"
    job = cluster.submit(using(command("sh", "-c", f'echo "$GANTRY_USES" > {there}'), licences=2, web1__memory=5))

    cluster.wait(job, status="success")

    assert there.read_text() == "licences=2 web1:memory=5\n"


def test_a_node_has_resources_of_its_own(cluster: Cluster, tmp_path: Path) -> None:
    set_total(cluster, "memory", 4, "web1")
    set_total(cluster, "memory", 9)
    gate = tmp_path / "gate"
    first = cluster.submit(using(gated(gate), web1__memory=4))
    begun(cluster, first)
    second, third = cluster.submit_many((using(command("true"), web1__memory=1),), (using(command("true"), memory=9),))

    cluster.wait(third, status="success")

    assert lacks(cluster, second) == LacksUnits("web1:memory", 1, 0, 4, (first,))
    gate.touch()
    cluster.wait(second, status="success")


def test_the_death_of_a_process_gives_its_units_back(cluster: Cluster) -> None:
    set_total(cluster, "licences", 1)
    first = cluster.submit(using(delay(600.0), licences=1))
    begun(cluster, first)
    second = cluster.submit(using(command("true"), licences=1))

    os.kill(process_of(cluster, first), signal.SIGKILL)

    cluster.wait(first, status="error")
    cluster.wait(second, status="success")


def test_units_are_adopted_by_the_next_luxid_before_anything_starts(cluster: Cluster, tmp_path: Path) -> None:
    set_total(cluster, "licences", 2)
    gate = tmp_path / "gate"
    first = cluster.submit(using(gated(gate), licences=2))
    begun(cluster, first)
    second = cluster.submit(using(command("true"), licences=1))

    cluster.restart("luxid")
    other = cluster.submit(command("true"))
    cluster.wait(other, status="success")

    wait_until(lambda: lacks(cluster, second) is not None, what="the totals are known again")
    assert lacks(cluster, second) == LacksUnits("licences", 1, 0, 2, (first,))
    gate.touch()
    cluster.wait(first, second, status="success")


def test_processes_that_are_left_under_locks_keep_the_units(cluster: Cluster) -> None:
    """Of an ended job, through a restart of luxid, until the last of them ends."""
    set_total(cluster, "licences", 1)
    pid_file = cluster.root / "pid"
    script = f"sleep 600 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}"
    first = cluster.submit(using(command("sh", "-c", script, keep_locks=True), licences=1))
    cluster.wait(first, status="success")
    second = cluster.submit(using(command("true"), licences=1))
    assert used(cluster) == {first: 1}

    cluster.restart("luxid")

    wait_until(lambda: lacks(cluster, second) is not None, what="the totals are known again")
    assert lacks(cluster, second) == LacksUnits("licences", 1, 0, 1, (first,))
    assert used(cluster) == {first: 1}
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    cluster.wait(second, status="success")


def test_totals_are_read_when_wconfd_comes_back_and_followed(cluster: Cluster) -> None:
    set_total(cluster, "licences", 1)
    job = cluster.submit(using(command("true"), licences=2))
    cluster.kill("luxid")
    cluster.kill("wconfd")
    cluster.start("luxid")
    # nobody is told that there are none
    with pytest.raises(RemoteError) as unknown:
        cluster.luxi(ReadResourceUse())
    assert unknown.value.code == "unavailable"

    cluster.start("wconfd")

    assert [use.resource.total for use in cluster.luxi(ReadResourceUse())] == [1]
    wait_until(lambda: lacks(cluster, job) is not None, what="the totals are known again")
    assert lacks(cluster, job) == LacksUnits("licences", 2, 1, 1, ())
    cluster.wconf(wconfd_resources.SetResourceTotal(Resource("", "licences", 2)))
    cluster.wait(job, status="success")


def test_cancel_while_waiting_frees_nothing_of_others(cluster: Cluster, tmp_path: Path) -> None:
    set_total(cluster, "licences", 1)
    gate = tmp_path / "gate"
    first = cluster.submit(using(gated(gate), licences=1))
    begun(cluster, first)
    second, third = cluster.submit_many((using(command("true"), licences=1),), (using(command("true"), licences=1),))

    assert cluster.luxi_wire(CancelJob(second))[0]

    assert used(cluster) == {first: 1}
    assert lacks(cluster, third) == LacksUnits("licences", 1, 0, 1, (first,))
    gate.touch()
    cluster.wait(third, status="success")


def test_a_lower_total_kills_nothing_and_a_higher_one_starts_what_waited(cluster: Cluster, tmp_path: Path) -> None:
    set_total(cluster, "licences", 3)
    gate = tmp_path / "gate"
    first = cluster.submit(using(gated(gate), licences=3))
    begun(cluster, first)
    set_total(cluster, "licences", 1)
    second = cluster.submit(using(command("true"), licences=2))

    assert lacks(cluster, second) == LacksUnits("licences", 2, -2, 1, (first,))
    gate.touch()
    cluster.wait(first, status="success")
    wait_until(lambda: used(cluster) == {}, what="the units are free")

    assert lacks(cluster, second) == LacksUnits("licences", 2, 1, 1, ())
    set_total(cluster, "licences", 2)
    cluster.wait(second, status="success")


def test_a_removed_resource_is_waited_for(cluster: Cluster) -> None:
    set_total(cluster, "licences", 1)
    cluster.luxi(RemoveResource("", "licences"))
    job = cluster.submit(using(command("true"), licences=1))

    assert lacks(cluster, job) == LacksUnits("licences", 1, 0, None, ())
    with pytest.raises(GantryError, match="there is no resource 'licences'"):
        cluster.luxi(RemoveResource("", "licences"))
    set_total(cluster, "licences", 1)
    cluster.wait(job, status="success")


def test_a_job_that_waits_between_its_opcodes_gives_its_units_back(cluster: Cluster, tmp_path: Path) -> None:
    """So it never waits for units while it holds locks; nor do others wait for what it does not use."""
    set_total(cluster, "licences", 1)
    gates = [tmp_path / "gate1", tmp_path / "gate2"]
    awaited = cluster.submit(gated(gates[0]))
    two = cluster.submit(using(command("true"), licences=1), {**gated(gates[1]), "depends": [[awaited, []]]})
    wait_until(lambda: cluster.job(two, "opstatus")[0][0] == "success", what="the first opcode ends")
    between = cluster.submit(using(command("true"), licences=1))

    cluster.wait(between, status="success")
    gates[0].touch()
    begun(cluster, two)

    assert used(cluster) == {two: 1}
    gates[1].touch()
    cluster.wait(two, status="success")


def test_strict_uses_refuse_what_there_is_not(tmp_path: Path) -> None:
    with Cluster(tmp_path / "root", settings="[luxid]\nstrict_uses = true\n") as cluster:
        cluster.start()
        set_total(cluster, "licences", 1)

        with pytest.raises(GantryError, match="wants 2 of 'licences', and there are only 1"):
            cluster.submit(using(command("true"), licences=2))
        with pytest.raises(GantryError, match="wants 1 of 'kits', whose total is not set"):
            cluster.submit(using(command("true"), kits=1))

        cluster.wait(cluster.submit(using(command("true"), licences=1)), status="success")

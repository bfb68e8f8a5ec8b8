"""An external executor whose jobs get their locks from wconfd as Ganeti's do (luxid.md 9.2; wconfd.md 5.4, 8.3)."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.ids import JobId
from common.locks import Owner, parse_lock
from protocol.luxi.jobs import CancelJob, ChangeJobPriority
from protocol.wconfd.locks import HasPendingRequest, ListAllLocks, ListLocks, ListLocksWaitingStatus
from tests.daemon.luxid.ops import command, dummy, process_of, read_job
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.leftovers import kill_all_under
from tests.support.wait import wait_until

NODE = {"node/n1": "exclusive"}
NOBODY = 65534
# the files are root's here, so that it needs this one right; all else it does as nobody
AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_override", "--ambient-caps=+dac_override"),
)


@pytest.fixture
def before_executor() -> tuple[str, ...]:
    """What the executor is started by."""
    return ()


@pytest.fixture
def cluster(tmp_path: Path, before_executor: tuple[str, ...]) -> Iterator[Cluster]:
    """An installation with an executor of its own; nothing is found by a sweep."""
    python = ["/usr/bin/env", f"PYTHONPATH={CHECKOUT}", sys.executable, "-P", "-m", "tests.support.fakes.executor"]
    argv = [*before_executor, *python]
    rules = "max_running_jobs = 8\nkill_grace_s = 0.5\nsweep_s = 3600.0\n"
    settings = f"[luxid]\n{rules}executor = {json.dumps([*argv, str(tmp_path)])}\n[wconfd]\nsweep_s = 3600.0\n"
    settings += f"[access]\nuids = [{NOBODY}]\n"
    with Cluster(tmp_path, settings=settings) as cluster:
        cluster.start("wconfd", "luxid")
        yield cluster
    kill_all_under(tmp_path)


def gated(locks: dict[str, str] = NODE) -> dict[str, Any]:
    """Runs until `go` is called for its job."""
    return command("wait", locks=locks)


def go(cluster: Cluster, job_id: int) -> None:
    (cluster.root / f"go-{job_id}").touch()


def events(cluster: Cluster, job_id: int) -> list[str]:
    """What the job saw of wconfd, in order."""
    return [event for found, event in all_events(cluster) if found == job_id]


def all_events(cluster: Cluster) -> list[tuple[int, str]]:
    path = cluster.root / "standin-events"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(job_id), event) for job_id, _, event in (line.partition(" ") for line in lines)]


def owner(cluster: Cluster, job_id: int) -> Owner:
    """As the job names itself to wconfd."""
    return Owner(JobId(job_id), read_job(cluster, job_id).livelock or "", process_of(cluster, job_id))


def run_behind(cluster: Cluster, count: int) -> list[int]:
    """A job that holds the node, and so many that wait for it; they are asked for one after the other."""
    holder = cluster.submit(gated())
    cluster.wait(holder, status="running")
    waiting = [wait_behind(cluster) for _ in range(count)]
    return [holder, *waiting]


def wait_behind(cluster: Cluster) -> int:
    job_id = cluster.submit(gated())
    wait_until(lambda: events(cluster, job_id), what=f"job {job_id} waits", state=lambda: all_events(cluster))
    return job_id


def test_a_job_holds_its_locks_under_the_three_parts_of_its_name_until_its_end(cluster: Cluster) -> None:
    job_id = cluster.submit(gated({"node/n1": "exclusive", "instance/web1": "shared"}))
    cluster.wait(job_id, status="running")

    held = [(str(lock), mode.value) for lock, mode in cluster.wconf(ListLocks(owner(cluster, job_id)))]
    assert held == [("cluster/BGL", "shared"), ("instance/web1", "shared"), ("node/n1", "exclusive")]

    go(cluster, job_id)
    assert cluster.wait(job_id) == ["success"]
    wait_until(lambda: cluster.wconf(ListAllLocks()) == (), what="nothing is locked")
    assert events(cluster, job_id) == ["has cluster/BGL instance/web1 node/n1", "frees"]


def test_two_jobs_that_want_a_node_for_themselves_never_overlap(cluster: Cluster) -> None:
    first, second = run_behind(cluster, 1)
    cluster.wait(second, status="waiting")
    assert cluster.wconf(HasPendingRequest(owner(cluster, second)))

    go(cluster, first)
    assert cluster.wait(first) == ["success"]
    go(cluster, second)

    assert cluster.wait(second) == ["success"]
    has = "has cluster/BGL node/n1"
    assert [event for event in all_events(cluster) if event[1] in (has, "frees")] == [
        (first, has),
        (first, "frees"),
        (second, has),
        (second, "frees"),
    ]
    assert events(cluster, second) == [f"pending 0 behind {first}", "hup", has, "frees"]


def test_many_jobs_that_want_a_node_have_it_one_after_the_other(cluster: Cluster) -> None:
    jobs = cluster.submit_many(*[(dummy(locks=NODE), dummy(locks=NODE))] * 6)

    assert cluster.wait(*jobs) == ["success"] * 6

    turns = [(job_id, event) for job_id, event in all_events(cluster) if event.startswith(("has", "frees"))]
    assert len(turns) == 24
    # the BGL is freed last, so the next may have the node before that is written of the one before
    assert all(event == "has cluster/BGL node/n1" for _, event in turns[::2])
    assert all(had == (freed[0], "has cluster/BGL node/n1") for had, freed in zip(turns[::2], turns[1::2], strict=True))


def test_jobs_that_share_a_node_do_not_wait(cluster: Cluster) -> None:
    jobs = cluster.submit_many(*[(gated({"node/n1": "shared"}),)] * 2)

    cluster.wait(*jobs, status="running")

    assert [event for _, event in all_events(cluster)] == ["has cluster/BGL node/n1"] * 2


def test_the_death_of_the_holder_lets_the_next_one_in_and_tells_it(cluster: Cluster) -> None:
    first, second = run_behind(cluster, 1)

    os.kill(process_of(cluster, first), signal.SIGKILL)

    cluster.wait(second, status="running")
    assert cluster.wait(first) == ["error"]
    assert events(cluster, first) == ["has cluster/BGL node/n1"]
    assert events(cluster, second) == [f"pending 0 behind {first}", "hup", "has cluster/BGL node/n1"]
    go(cluster, second)
    assert cluster.wait(second) == ["success"]
    assert "sweep.found_dead" not in cluster.log("luxid") + cluster.log("wconfd")


def test_the_death_of_one_that_waits_takes_its_request_away(cluster: Cluster) -> None:
    first, second, third = run_behind(cluster, 2)

    os.kill(process_of(cluster, second), signal.SIGKILL)

    assert cluster.wait(second) == ["error"]
    wait_until(lambda: len(cluster.wconf(ListLocksWaitingStatus()).pending) == 1, what="one request is pending")
    go(cluster, first)
    cluster.wait(third, status="running")


def test_a_new_priority_reaches_one_that_waits_and_puts_it_before_the_others(cluster: Cluster) -> None:
    first, second, third = run_behind(cluster, 2)

    assert cluster.luxi(ChangeJobPriority(JobId(third), -10)).is_done is True

    wait_until(
        lambda: [event for event in events(cluster, third) if event.startswith("pending -10")],
        what="the job asks again",
        state=lambda: all_events(cluster),
    )
    assert (cluster.root / f"standin-priority-{third}").read_text() == "-10 600"
    wait_until(lambda: cluster.job(third, "oppriority") == ([-10],), what="luxid knows the priority")
    go(cluster, first)
    cluster.wait(third, status="running")
    assert cluster.status(second) == "waiting"
    assert events(cluster, second) == [f"pending 0 behind {first}"]


def test_a_cancel_ends_the_wait_for_locks_and_nothing_is_left_of_it(cluster: Cluster) -> None:
    first, second = run_behind(cluster, 1)

    cluster.luxi(CancelJob(JobId(second)))

    assert cluster.wait(second) == ["canceled"]
    wait_until(lambda: cluster.wconf(ListLocksWaitingStatus()).pending == (), what="no request is pending")
    held = [lock for lock, _ in cluster.wconf(ListLocks(owner(cluster, first)))]
    assert parse_lock("node/n1") in held


def test_locks_outlive_the_daemons_and_the_next_one_is_told_by_the_new_wconfd(cluster: Cluster) -> None:
    first, second = run_behind(cluster, 1)

    cluster.restart("luxid")
    cluster.restart("wconfd")
    go(cluster, first)

    assert cluster.wait(first) == ["success"]
    cluster.wait(second, status="running")
    assert events(cluster, second)[1:] == ["hup", "has cluster/BGL node/n1"]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root may become another user")
@pytest.mark.parametrize("before_executor", [AS_NOBODY])
def test_a_process_of_another_user_has_its_files_its_locks_and_its_signals(cluster: Cluster) -> None:
    first, second = run_behind(cluster, 1)
    assert Path(f"/proc/{process_of(cluster, second)}").stat().st_uid == NOBODY

    assert cluster.luxi(ChangeJobPriority(JobId(second), -10)).is_done is True
    asked_again = f"pending -10 behind {first}"
    wait_until(lambda: asked_again in events(cluster, second), what="it has its priority")
    go(cluster, first)
    assert cluster.wait(first) == ["success"]
    cluster.wait(second, status="running")

    assert cluster.paths.job_file(second).stat().st_uid == NOBODY
    assert events(cluster, second)[-3:] == [asked_again, "hup", "has cluster/BGL node/n1"]
    assert cluster.job(second, "oppriority") == ([-10],)
    os.kill(process_of(cluster, second), signal.SIGKILL)
    assert cluster.wait(second) == ["error"]
    wait_until(lambda: cluster.wconf(ListAllLocks()) == (), what="nothing is locked")

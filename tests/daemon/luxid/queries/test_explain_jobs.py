"""ExplainJobs: why real jobs wait (DESIGN section 6, "Explain")."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from common.ids import JobId
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.settings import LuxidSettings
from common.system.livelock import Livelock
from protocol.luxi.queue import ReplaceFilter
from protocol.luxi.why import ExplainJobs
from protocol.wconfd.locks import FreeLocks, ListAllLocksOwners, TryUpdateLocks, UpdateLocksWaiting
from tests.daemon.luxid.ops import after, command, delay, dummy, read_job
from tests.support.cluster import Cluster
from tests.support.stopping import stop
from tests.support.wait import wait_until

TICK_S, TICKS = LuxidSettings().lock_weight_tick_s, LuxidSettings().lock_weight_ticks


def epoch(stamp: list[int]) -> float:
    return stamp[0] + stamp[1] / 1e6


def reasons(cluster: Cluster, job_id: int) -> dict[str, Any]:
    [found] = cluster.luxi_wire(ExplainJobs((JobId(job_id),)))
    return {reason.pop("kind"): reason for reason in found}


def reasons_with(cluster: Cluster, job_id: int, is_known: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The reasons as soon as this is known: luxid hears of held locks a moment later, and wconfd may be slow."""
    found: dict[str, Any] = {}

    def are_told() -> object:
        nonlocal found
        found = reasons(cluster, job_id)
        return "unknown" not in found and is_known(found)

    wait_until(are_told, what=f"all is known of job {job_id}", state=lambda: found)
    return found


def holders_known(found: dict[str, Any]) -> bool:
    held = found["weight"]["held"]
    return bool(held) and all(each["since"] is not None for each in held)


def lock_known(found: dict[str, Any]) -> bool:
    return "lock" in found


def test_every_reason_is_told_with_its_culprit(cluster: Cluster) -> None:
    locks = {"node/n1": "exclusive"}
    running = cluster.submit_many(*[(delay(60),)] * 3, (command("sleep", "60", locks=locks),))
    cluster.wait(*running, status="running")
    first = cluster.submit(dummy())
    slow = cluster.submit(command("true", locks=locks))
    dependent = cluster.submit(dummy(depends=after(slow)))

    told = reasons(cluster, dependent)["dependency"]
    received_at = epoch(cluster.job(slow, "received_ts")[0])
    assert told == {"job_id": slow, "state": "queued", "since": received_at, "wanted": ["success"]}
    found = reasons_with(cluster, slow, holders_known)
    assert found["slots"] == {"used": 4, "slots": 4, "running": running}
    assert found["order"] == {"position": 2, "ahead": [first]}
    [held] = found["weight"].pop("held")
    assert found["weight"] == {"level": "node", "weight": 3.0, "job_ids": [running[3]]}
    since = held.pop("since")
    assert held == {"owner": f"job/{running[3]}", "job_id": running[3], "lock": "node/n1", "mode": "exclusive"}
    assert epoch(cluster.job(running[3], "received_ts")[0]) < since < time.time()
    # a tick may end at any moment
    ticks = found["aged weight"].pop("ticks")
    assert ticks <= (time.time() - received_at) // TICK_S + 1
    assert found["aged weight"] == {"static": 4.0, "aged": pytest.approx(4.0 * (1 - ticks / TICKS))}
    assert reasons(cluster, running[0]) == {}
    assert list(cluster.luxi_wire(ExplainJobs((JobId(99),)))) == [None]


def test_a_pausing_rule_is_told_with_its_reasons(cluster: Cluster) -> None:
    uuid = cluster.luxi(ReplaceFilter(None, 0, (), "PAUSE", (("gnt:user", "rack 5 is being moved", 1),)))
    job_id = cluster.submit(dummy())

    rule = reasons(cluster, job_id)["filter"]

    assert (rule["uuid"], rule["action"]) == (uuid, "PAUSE")
    assert rule["reason_trail"][0] == ["gnt:user", "rack 5 is being moved", 1]


def test_what_a_running_job_really_holds_weighs_not_what_it_declared(cluster: Cluster) -> None:
    holder = cluster.submit(command("sleep", "60", locks={"node/n1": "exclusive", "node/n2": "exclusive"}))
    cluster.wait(holder, status="running")
    owner = next(owner for _, held in cluster.wconf(ListAllLocksOwners()) for owner, _ in held if owner.ident == holder)
    cluster.submit_many(*[(delay(60),)] * 3)
    job_id = cluster.submit(command("true", locks={"node/n1": "exclusive"}))
    assert reasons(cluster, job_id)["weight"]["weight"] == 3.0

    cluster.wconf(TryUpdateLocks(owner, (LockRequest(parse_lock("node/n1"), None),)))

    wait_until(lambda: reasons(cluster, job_id)["weight"]["weight"] == 0.5, what="the release is known")


@contextmanager
def client(cluster: Cluster, name: str) -> Iterator[Owner]:
    """An owner that is no job, and lives while the block runs."""
    livelock = Livelock.create(cluster.paths.livelocks, name)
    try:
        yield Owner(name, livelock.path)
    finally:
        livelock.remove()


def test_the_chain_of_locks_is_told_to_its_root_with_holders_modes_and_instants(cluster: Cluster) -> None:
    """Through a client that is no job: job/2 waits for it, it waits for job/1."""
    before = time.time()
    root = cluster.submit(command("sleep", "600", locks={"node/n1": "exclusive"}))
    cluster.wait(root, status="running")
    with client(cluster, "me") as me:
        cluster.wconf(TryUpdateLocks(me, (LockRequest(parse_lock("instance/i1"), LockMode.SHARED),)))
        cluster.wconf(UpdateLocksWaiting(me, 0, (LockRequest(parse_lock("node/n1"), LockMode.SHARED),)))
        waiter = cluster.submit(command("true", locks={"instance/i1": "exclusive", "instance/i2": "shared"}))
        cluster.wait(waiter, status="waiting")

        found = reasons_with(cluster, waiter, lock_known)

        assert set(found) == {"lock", "lock chain"}
        lock, chain = found["lock"], found["lock chain"]
        [holder] = lock["holders"]
        [link] = chain["waits"]
        [behind] = link["holders"]
        assert (lock["lock"], lock["mode"]) == ("instance/i1", "exclusive")
        holder_facts = [holder[key] for key in ("owner", "job_id", "lock", "mode")]
        assert holder_facts == ["me", None, "instance/i1", "shared"]
        assert [link[key] for key in ("owner", "job_id", "lock", "mode")] == ["me", None, "node/n1", "shared"]
        assert [behind[key] for key in ("owner", "job_id", "lock", "mode")] == [
            f"job/{root}", root, "node/n1", "exclusive",
        ]  # fmt: skip
        assert (chain["roots"], chain["root_job_ids"], chain["rings"]) == ([f"job/{root}"], [root], [])
        instants = [behind["since"], holder["since"], link["waiting_since"], lock["waiting_since"], time.time()]
        assert instants == sorted(instants)
        assert lock["counting_since"] < before < behind["since"]
        assert reasons(cluster, root) == {}

        cluster.wconf(FreeLocks(me))
        assert cluster.wait(waiter) == ["success"]


def test_a_job_whose_locks_are_held_since_before_wconfd_says_since_when_it_counts(cluster: Cluster) -> None:
    locks = {"node/n1": "exclusive"}
    first = cluster.submit(command("sleep", "600", locks=locks))
    cluster.wait(first, status="running")
    waiter = cluster.submit(command("true", locks=locks))
    cluster.wait(waiter, status="waiting")

    cluster.restart("wconfd")

    lock = reasons_with(cluster, waiter, lock_known)["lock"]
    assert [holder["since"] for holder in lock["holders"]] == [None]
    assert lock["counting_since"] < time.time()


@pytest.mark.parametrize("how", ["away", "slow"])
def test_without_wconfd_the_rest_is_told_and_what_is_missing(cluster: Cluster, how: str) -> None:
    locks = {"node/n1": "exclusive"}
    running = cluster.submit_many(*[(delay(600),)] * 2, (command("sleep", "600", locks=locks),))
    cluster.wait(*running, status="running")
    waiter = cluster.submit(command("true", locks=locks))
    cluster.wait(waiter, status="waiting")
    wait_until(lambda: "lock" in reasons(cluster, waiter), what="its request is pending")
    queued = cluster.submit(command("true", locks=locks))
    reasons_with(cluster, queued, holders_known)
    wconfd = cluster.daemons["wconfd"].pid
    if how == "away":
        cluster.kill("wconfd")
    else:
        stop(wconfd)

    try:
        found, behind = reasons(cluster, waiter), reasons(cluster, queued)
    finally:
        if how == "slow":
            os.kill(wconfd, signal.SIGCONT)

    why = "wconfd does not answer at" if how == "away" else "wconfd gave no answer within 2 s"
    assert set(found) == {"unknown"}
    assert found["unknown"]["what"] == "which locks it waits for, if any"
    assert found["unknown"]["why"].startswith(why)
    assert {"slots", "order", "weight", "unknown"} <= set(behind)
    assert behind["unknown"]["what"] == "for how long locks are held"
    assert {held["since"] for held in behind["weight"]["held"]} == {None}
    assert reasons(cluster, running[0]) == {}


def test_many_jobs_wait_for_a_slow_wconfd_once(cluster: Cluster) -> None:
    """Three waiters in one call: the time limit is that of the call."""
    locks = {"node/n1": "exclusive"}
    first = cluster.submit(command("sleep", "600", locks=locks))
    cluster.wait(first, status="running")
    waiters = cluster.submit_many(*[(command("true", locks=locks),)] * 3)
    cluster.wait(*waiters, status="waiting")
    wait_until(lambda: all("lock" in reasons(cluster, each) for each in waiters), what="their requests are pending")
    wconfd = cluster.daemons["wconfd"].pid
    stop(wconfd)

    try:
        told = cluster.luxi_wire(ExplainJobs(tuple(map(JobId, waiters))))
    finally:
        os.kill(wconfd, signal.SIGCONT)

    assert [[reason["kind"] for reason in each] for each in told] == [["unknown"]] * 3
    wait_until(lambda: "lock" in reasons(cluster, waiters[0]), what="wconfd answers again")


def test_a_command_that_has_outlived_the_process_of_its_job_is_told(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    note = tmp_path_factory.mktemp("note") / "pid"
    job_id = cluster.submit(command("sh", "-c", f"echo $$ > {note}.new && mv {note}.new {note}; exec sleep 600"))
    wait_until(note.exists, what="the command runs")
    pid = int(note.read_text())
    process_id = read_job(cluster, job_id).process_id
    assert process_id is not None

    assert reasons(cluster, job_id) == {}
    os.kill(process_id, signal.SIGKILL)
    assert reasons_with(cluster, job_id, lambda found: "outlived" in found) == {"outlived": {"pids": [pid]}}
    os.kill(pid, signal.SIGKILL)
    assert cluster.wait(job_id) == ["error"]

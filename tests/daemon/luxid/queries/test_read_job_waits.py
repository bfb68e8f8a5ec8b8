"""ReadJobWaits: what real jobs waited for (DESIGN section 6, "Explain"; ours)."""

import signal
import time
from collections.abc import Sequence
from typing import Any

import pytest

from common.ids import JobId
from common.queue.explanation import SHORTEST_S
from protocol.luxi.jobs import ArchiveJob, CancelJob
from protocol.luxi.queue import DeleteFilter, ReplaceFilter
from protocol.luxi.why import ReadJobWaits
from tests.daemon.luxid.ops import after, command, delay, dummy, gated, process_of
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

LOCKS = {"node/n1": "exclusive"}
# what a busy machine adds
SLOWNESS = ("start", "turn", "obstacle")
ON_A = [["gnt:user", "rate-limit:1:a", 1]]


def waits(cluster: Cluster, job_id: int) -> list[dict[str, Any]]:
    [found] = cluster.luxi_wire(ReadJobWaits((JobId(job_id),)))
    return [dict(span) for span in found]


def blame(cluster: Cluster, job_id: int, ignored: Sequence[str]) -> list[dict[str, Any]]:
    """The spans without their instants; only the last one may be open."""
    found = waits(cluster, job_id)
    for span in found[:-1]:
        assert span["until"] - span["since"] >= SHORTEST_S
    told = [span for span in found if span["kind"] not in ignored]
    return [{key: value for key, value in span.items() if key not in ("since", "until")} for span in told]


def is_waiting(cluster: Cluster, job_id: int, kind: str) -> bool:
    """For long enough to be written, if it ended now."""
    found = waits(cluster, job_id)
    return bool(found) and found[-1]["kind"] == kind and found[-1]["until"] is None


def has_waited(cluster: Cluster, job_id: int, kind: str) -> None:
    """Wait until the present wait is worth telling."""
    wait_until(lambda: is_waiting(cluster, job_id, kind), what=f"job {job_id} waits: {kind}")
    other = cluster.submit(delay(SHORTEST_S * 1.5))
    cluster.wait(other)


def lived_through(cluster: Cluster, job_id: int, ignored: Sequence[str] = SLOWNESS) -> list[dict[str, Any]]:
    """The causes of a job that has ended; the same before and after it is archived."""
    cluster.wait(job_id)
    found = waits(cluster, job_id)
    assert all(span["until"] is not None for span in found)
    assert cluster.luxi(ArchiveJob(JobId(job_id)))
    assert waits(cluster, job_id) == found
    return blame(cluster, job_id, ignored)


def test_a_chained_job_has_waited_for_the_one_before(cluster: Cluster) -> None:
    first = cluster.submit(delay(60))
    job_id = cluster.submit(dummy(depends=after(first, wanted=("success", "error"))))
    has_waited(cluster, job_id, "dependency")

    cluster.luxi(CancelJob(first, kill=True))

    assert lived_through(cluster, job_id) == [{"kind": "dependency", "job_ids": [first]}]


def test_a_job_has_waited_for_the_lock_and_not_for_all_that_it_asked_for(cluster: Cluster) -> None:
    holder = cluster.submit(command("sleep", "60", locks=LOCKS))
    cluster.wait(holder, status="running")
    job_id = cluster.submit(command("true", locks={**LOCKS, "node/n2": "shared", "instance/i1": "exclusive"}))
    has_waited(cluster, job_id, "locks")

    cluster.luxi(CancelJob(holder, kill=True))

    assert lived_through(cluster, job_id) == [{"kind": "locks", "job_ids": [holder], "names": ["node/n1"]}]


def test_a_job_that_was_canceled_has_waited_for_its_lock(cluster: Cluster) -> None:
    holder = cluster.submit(command("sleep", "60", locks=LOCKS))
    cluster.wait(holder, status="running")
    job_id = cluster.submit(command("true", locks=LOCKS))
    has_waited(cluster, job_id, "locks")

    cluster.luxi(CancelJob(job_id))

    assert lived_through(cluster, job_id) == [{"kind": "locks", "job_ids": [holder], "names": ["node/n1"]}]


def test_a_job_whose_process_was_killed_has_waited_until_its_end(cluster: Cluster) -> None:
    holder = cluster.submit(command("sleep", "60", locks=LOCKS))
    cluster.wait(holder, status="running")
    job_id = cluster.submit(command("true", locks=LOCKS))
    has_waited(cluster, job_id, "locks")

    cluster.kill_group(process_of(cluster, job_id))

    assert lived_through(cluster, job_id) == [{"kind": "locks", "job_ids": [holder], "names": ["node/n1"]}]


def test_a_rate_limited_job_has_waited_for_a_place(cluster: Cluster) -> None:
    first = cluster.submit(delay(60, reason=ON_A))
    job_id = cluster.submit(dummy(reason=ON_A))
    has_waited(cluster, job_id, "limit")

    cluster.luxi(CancelJob(first, kill=True))

    assert lived_through(cluster, job_id) == [{"kind": "limit", "names": ["1:a"], "limit": 1, "is_bucket": True}]


def test_a_job_has_waited_for_its_turn(cluster: Cluster) -> None:
    running = cluster.submit_many(*[(delay(60),)] * 4)
    job_id = cluster.submit(dummy())
    wait_until(lambda: is_waiting(cluster, job_id, "turn"), what="it waits for its turn")
    since = waits(cluster, job_id)[-1]["since"]

    wait_until(lambda: _age(cluster, job_id) > SHORTEST_S, what="that is worth telling")
    cluster.luxi(CancelJob(running[0], kill=True))

    assert {"kind": "turn"} in lived_through(cluster, job_id, ())
    assert since in [span["since"] for span in waits(cluster, job_id) if span["kind"] == "turn"]


def test_a_rule_that_paused_a_job_is_named_also_between_its_opcodes(cluster: Cluster) -> None:
    go = cluster.root / "go"
    job_id = cluster.submit(gated(go), dummy())
    cluster.wait(job_id, status="running")
    uuid = cluster.luxi(ReplaceFilter(None, 0, (("jobid", ["=", "id", job_id]),), "PAUSE", (("gnt:user", "move", 1),)))
    wait_until(cluster.paths.pause_message(job_id).exists, what="the job is asked to pause")
    go.touch()
    has_waited(cluster, job_id, "filter")

    cluster.luxi(DeleteFilter(uuid))

    assert lived_through(cluster, job_id) == [{"kind": "filter", "names": [uuid], "reason": "move"}]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_luxid_knew_is_unknown_and_what_one_that_was_stopped_knew_is_not(
    cluster: Cluster, number: int
) -> None:
    first = cluster.submit(delay(60))
    job_id = cluster.submit(dummy(depends=after(first, wanted=("success", "error"))))
    has_waited(cluster, job_id, "dependency")

    cluster.kill("luxid", number)
    gone_at = time.monotonic()
    wait_until(lambda: time.monotonic() - gone_at > SHORTEST_S, what="its absence is worth telling")
    cluster.start("luxid")
    has_waited(cluster, job_id, "dependency")
    cluster.luxi(CancelJob(first, kill=True))

    dependency, unknown = {"kind": "dependency", "job_ids": [first]}, {"kind": "unknown"}
    found = lived_through(cluster, job_id)
    assert found[-2:] == [unknown, dependency]
    assert found[:-2] == ([dependency] if number == signal.SIGTERM else [])
    spans = waits(cluster, job_id)
    known = [span for span in spans if span["kind"] not in SLOWNESS]
    assert [span["until"] for span in known[:-1]] == pytest.approx([span["since"] for span in known[1:]])


def test_jobs_that_wait_for_nothing_leave_nothing_behind(cluster: Cluster) -> None:
    """Not even a file; a machine that is busy may delay a job so long that it is told, rightly."""
    job_ids = [cluster.submit(dummy()) for _ in range(10)]
    cluster.wait(*job_ids)

    told = {job_id for job_id in job_ids if waits(cluster, job_id)}

    assert {int(path.name) for path in cluster.paths.waits.iterdir()} == {job_id // 100 for job_id in told}


def test_of_a_job_that_does_not_exist_there_is_no_history(cluster: Cluster) -> None:
    assert list(cluster.luxi_wire(ReadJobWaits((JobId(99),)))) == [None]


def _age(cluster: Cluster, job_id: int) -> float:
    return time.time() - float(waits(cluster, job_id)[-1]["since"])

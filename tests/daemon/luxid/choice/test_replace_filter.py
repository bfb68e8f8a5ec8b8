"""ReplaceFilter and DeleteFilter, and what rules do to real jobs (luxid.md 6; DESIGN section 11)."""

from typing import Any

import pytest

from common.errors import RemoteError
from common.ids import JobId
from common.queue.reasons import ReasonEntry
from protocol.luxi.jobs import SubmitManyJobs
from protocol.luxi.queries import QueryFilters
from protocol.luxi.queue import DeleteFilter, ReplaceFilter
from protocol.wconfd import changes
from protocol.wconfd.locks import ListLocksWaitingStatus
from tests.daemon.luxid.ops import command, delay, dummy, read_job
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def replace(cluster: Cluster, action: Any, *predicates: Any, uuid: str | None = None, priority: int = 0) -> str:
    trail = (("gnt:user", "rack 5 is being moved", 1),)
    return cluster.luxi(ReplaceFilter(uuid, priority, predicates, action, trail))


def test_a_rejecting_rule_cancels_what_waits_refuses_what_comes_and_lets_what_runs_run(cluster: Cluster) -> None:
    running = cluster.submit_many(*[(delay(60),)] * 4)
    cluster.wait(*running, status="running")
    queued = cluster.submit(dummy())

    uuid = replace(cluster, "REJECT")

    assert cluster.wait(queued) == ["canceled"]
    assert read_job(cluster, queued).ops[0].input["reason"][-1][1] == f"rejected by filter rule {uuid}"
    with pytest.raises(RemoteError, match=f"rejected by filter rule {uuid} .gnt:user: rack 5 is being moved"):
        cluster.submit(dummy())
    answers = cluster.luxi_wire(SubmitManyJobs(((dummy(),), (dummy(),))))
    assert [answer[0] for answer in answers] == [False, False]
    assert [cluster.status(job_id) for job_id in running] == ["running"] * 4


def test_a_refused_submission_spends_no_id(cluster: Cluster) -> None:
    first = cluster.submit(dummy())
    uuid = replace(cluster, "REJECT")
    with pytest.raises(RemoteError):
        cluster.submit(dummy())

    cluster.luxi(DeleteFilter(uuid))

    assert cluster.submit(dummy()) == first + 1


def test_a_paused_job_starts_when_the_rule_is_deleted(cluster: Cluster) -> None:
    uuid = replace(cluster, "PAUSE", ("opcode", ("==", "OP_ID", "OP_RUN_COMMAND")))
    paused, other = cluster.submit(command("true")), cluster.submit(dummy())
    assert cluster.wait(other) == ["success"]
    assert cluster.status(paused) == "queued"

    cluster.luxi(DeleteFilter(uuid))

    assert cluster.wait(paused) == ["success"]


def test_a_running_job_stops_before_its_next_opcode_and_is_continued_later(cluster: Cluster) -> None:
    gate, locks = cluster.root / "gate", {"node/n1": "exclusive"}
    first = command("sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done", locks=locks)
    job_id = cluster.submit(first, command("true", locks=locks))
    cluster.wait(job_id, status="running")
    message = cluster.paths.pause_message(job_id)
    uuid = replace(cluster, "PAUSE", ("jobid", ("<=", "id", "watermark")))
    wait_until(message.exists, what="the job is asked to pause")

    gate.touch()

    wait_until(lambda: cluster.job(job_id, "opstatus") == (["success", "queued"],), what="the first opcode has ended")
    assert cluster.wait(cluster.submit(command("true", locks=locks))) == ["success"], "its locks are free"
    wait_until(lambda: not message.exists(), what="the process has stopped")
    assert cluster.status(job_id) == "queued"
    cluster.luxi(DeleteFilter(uuid))
    assert cluster.wait(job_id) == ["success"]


def test_a_job_that_waits_for_locks_gives_up_its_request_when_the_rule_comes(cluster: Cluster) -> None:
    gate, ran, locks = cluster.root / "gate", cluster.root / "ran", {"node/n1": "exclusive"}
    holder = cluster.submit(command("sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done", locks=locks))
    cluster.wait(holder, status="running")
    job_id = cluster.submit(command("touch", str(ran), locks=locks))
    cluster.wait(job_id, status="waiting")
    wait_until(lambda: waiting_for_locks(cluster) == [job_id], what="its request is pending")

    uuid = replace(cluster, "PAUSE", ("jobid", ("=", "id", job_id)))

    message = cluster.paths.pause_message(job_id)
    wait_until(lambda: cluster.status(job_id) == "queued" and not message.exists(), what="its process has stopped")
    assert cluster.status(holder) == "running"
    assert waiting_for_locks(cluster) == []
    cluster.luxi(DeleteFilter(uuid))
    wait_until(lambda: waiting_for_locks(cluster) == [job_id], what="it waits for its locks again")
    assert not ran.exists()
    gate.touch()
    assert cluster.wait(holder, job_id) == ["success", "success"]
    assert ran.exists()


def waiting_for_locks(cluster: Cluster) -> list[Any]:
    """The jobs whose requests are pending."""
    return [each.owner.ident for each in cluster.wconf(ListLocksWaitingStatus()).pending]


def test_of_a_limited_kind_as_many_run_as_the_rule_says(cluster: Cluster) -> None:
    replace(cluster, ("RATE_LIMIT", 2), ("reason", ("=~", "source", "gnt:opcode:test_delay")))
    jobs = cluster.submit_many(*[(delay(60),)] * 3)

    cluster.wait(*jobs[:2], status="running")

    assert cluster.wait(cluster.submit(dummy())) == ["success"]
    assert cluster.status(jobs[2]) == "queued"


def test_rules_hold_after_a_restart_before_any_job_is_started(cluster: Cluster) -> None:
    replace(cluster, "PAUSE", priority=1)
    paused = cluster.submit(dummy())

    cluster.restart("luxid")
    replace(cluster, "ACCEPT", ("jobid", (">", "id", "watermark")))

    assert cluster.wait(cluster.submit(dummy())) == ["success"]
    assert cluster.status(paused) == "queued"


def test_a_replaced_rule_keeps_its_uuid_and_gets_a_watermark_and_luxids_reason(cluster: Cluster) -> None:
    uuid = replace(cluster, "PAUSE")
    job_id = cluster.submit(dummy())

    assert replace(cluster, "ACCEPT", ("jobid", ("=", "id", 5)), uuid=uuid, priority=3) == uuid

    fields = ("uuid", "watermark", "priority", "predicates", "action", "reason_trail")
    [[found, watermark, priority, predicates, action, trail]] = cluster.luxi_wire(QueryFilters(None, fields))
    assert (found, watermark, priority, action) == (uuid, job_id, 3, "ACCEPT")
    assert predicates == [["jobid", ["==", "id", 5]]]
    assert trail[0] == ["gnt:user", "rack 5 is being moved", 1]
    assert trail[1][:2] == ["luxid", ""]


@pytest.mark.parametrize(
    ("action", "predicates", "said"),
    [
        (("RATE_LIMIT", 0), (), "RATE_LIMIT must be greater than 0"),
        ("PAUSE", (("user", None),), r"predicates\[0\]\[0\]: unknown predicate 'user'"),
        ("PAUSE", (("jobid", ("==", "job", 1)),), r"predicates\[0\] \(jobid\): unknown field 'job'"),
        ("PAUSE", (("reason", ("=~", "reason", "(")),), r"filter \$\[2\]: bad regular expression"),
    ],
)
def test_a_bad_rule_is_refused_and_changes_nothing(cluster: Cluster, action: Any, predicates: Any, said: str) -> None:
    with pytest.raises(RemoteError, match=said):
        replace(cluster, action, *predicates)

    assert cluster.luxi(QueryFilters(None, ("uuid",))) == ()
    assert cluster.wait(cluster.submit(dummy())) == ["success"]


def test_a_bad_uuid_or_priority_and_a_rule_that_is_not_there_are_refused(cluster: Cluster) -> None:
    with pytest.raises(RemoteError, match="not a UUID; write it in lower-case hex"):
        replace(cluster, "PAUSE", uuid="ABCDEF01-0000-0000-0000-000000000000")
    with pytest.raises(RemoteError, match="at least 0, got -1"):
        replace(cluster, "PAUSE", priority=-1)
    with pytest.raises(RemoteError, match="there is no filter rule"):
        cluster.luxi(DeleteFilter("abcdef01-0000-0000-0000-000000000000"))


def test_a_rule_that_somebody_else_sets_in_wconfd_is_followed(cluster: Cluster) -> None:
    trail = (ReasonEntry("gnt:user", "by hand", 1),)
    uuid = "abcdef01-0000-0000-0000-000000000000"
    cluster.wconf(changes.ReplaceFilterRule(uuid, 0, (), "REJECT", trail, JobId(0)))

    wait_until(lambda: is_refused(cluster), what="the rule is in force")
    cluster.restart("wconfd")
    cluster.wconf(changes.DeleteFilterRule(uuid))

    wait_until(lambda: not is_refused(cluster), what="the rule is not in force any more")


def is_refused(cluster: Cluster) -> bool:
    try:
        cluster.submit(dummy())
    except RemoteError:
        return True
    return False

"""ExplainJobs: why real jobs wait (DESIGN section 6, "Explain")."""

from typing import Any

from common.locks import JobId, LockRequest, parse_lock
from protocol.luxi import ExplainJobs, ReplaceFilter
from protocol.wconfd import ListAllLocksOwners, TryUpdateLocks
from tests.daemon.luxid.ops import after, command, delay, dummy
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def reasons(cluster: Cluster, job_id: int) -> dict[str, Any]:
    [found] = cluster.luxi(ExplainJobs((JobId(job_id),)))
    return {reason.pop("kind"): reason for reason in found}


def test_every_reason_is_told_with_its_culprit(cluster: Cluster) -> None:
    locks = {"node/n1": "exclusive"}
    running = cluster.submit_many(*[(delay(60),)] * 3, (command("sleep", "60", locks=locks),))
    cluster.wait(*running, status="running")
    first = cluster.submit(dummy())
    slow = cluster.submit(command("true", locks=locks))
    dependent = cluster.submit(dummy(depends=after(slow)))

    assert reasons(cluster, dependent)["dependency"] == {"job_id": slow, "state": "queued", "wanted": ["success"]}
    found = reasons(cluster, slow)
    assert found["slots"] == {"used": 4, "slots": 4, "running": running}
    assert found["order"] == {"position": 2, "ahead": [first]}
    assert found["weight"] == {"level": "node", "weight": 3.0, "job_ids": [running[3]]}
    assert found["aged weight"] == {"static": 4.0, "aged": 4.0, "ticks": 0}
    assert reasons(cluster, running[0]) == {}
    assert list(cluster.luxi(ExplainJobs((JobId(99),)))) == [None]


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

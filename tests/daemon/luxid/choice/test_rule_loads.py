"""ReadRuleLoads: what rules and buckets do to real jobs, in numbers."""

from typing import Any

import pytest

from common.errors import RemoteError
from common.queue.ruleloads import BucketLoad, RuleLoad
from protocol.luxi.jobs import SubmitManyJobs
from protocol.luxi.queue import DeleteFilter, ReadRuleLoads, ReplaceFilter
from tests.daemon.luxid.ops import dummy, gated
from tests.support.cluster import Cluster


def test_the_loads_of_rules_and_buckets_follow_the_jobs(cluster: Cluster) -> None:
    def replace(action: Any, comment: str, uuid: str | None = None) -> str:
        return cluster.luxi(ReplaceFilter(uuid, 0, (["opcode", ["==", "comment", comment]],), action, ()))

    limit, rule = replace(["RATE_LIMIT", 1], "limited"), replace("PAUSE", "ruled")
    gate = cluster.root / "gate"
    bucket = {"reason": [["gnt:user", "rate-limit:2:disk", 1]]}
    limited = cluster.submit_many(*[(gated(gate) | {"comment": "limited"},)] * 3)
    named = cluster.submit_many(*[(gated(gate) | bucket,)] * 5)
    cluster.wait(limited[0], *named[:2], status="running")
    ruled = cluster.submit_many(*[(dummy(comment="ruled"),)] * 4)

    loads = cluster.luxi(ReadRuleLoads())

    assert {each.uuid: each for each in loads.rules} == {
        limit: RuleLoad(limit, rejected=0, held=2, running=1, limit=1),
        rule: RuleLoad(rule, rejected=0, held=4, running=0, limit=None),
    }
    assert (loads.buckets, loads.bucket_count) == ((BucketLoad("2:disk", held=3, running=2, limit=2),), 1)

    replace("REJECT", "ruled", rule)
    cluster.wait(*ruled)
    with pytest.raises(RemoteError, match=rule):
        cluster.submit(dummy(comment="ruled"))
    cluster.luxi_wire(SubmitManyJobs(((dummy(comment="ruled"),), (dummy(),), (dummy(comment="ruled"),))))
    gate.touch()
    cluster.wait(*limited, *named)

    loads = cluster.luxi(ReadRuleLoads())

    assert {each.uuid: each for each in loads.rules} == {
        limit: RuleLoad(limit, rejected=0, held=0, running=0, limit=1),
        rule: RuleLoad(rule, rejected=7, held=0, running=0, limit=None),
    }
    assert loads.buckets == ()

    cluster.luxi(DeleteFilter(rule))
    assert [each.uuid for each in cluster.luxi(ReadRuleLoads()).rules] == [limit]

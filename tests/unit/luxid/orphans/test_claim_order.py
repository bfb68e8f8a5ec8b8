"""A new master gives locks to jobs whose commands run before those that may only have waited (DESIGN section 14)."""

from common.ids import JobId
from daemons.luxid.core.orphans import claim_order
from daemons.luxid.core.queue.recovery import NodeWork

WORKS = {JobId(number): NodeWork(0, node, ends_on_failover=False) for number, node in enumerate("aabb", start=1)}


def test_a_job_that_waited_claims_nothing_before_the_one_whose_command_runs() -> None:
    assert claim_order(WORKS, {"a": {"2.0.1"}, "b": {"3.0.1"}}) == (2, 3)


def test_the_jobs_of_a_silent_node_claim_last() -> None:
    assert claim_order(WORKS, {"b": {"4.0.1"}}) == (4, 1, 2)


def test_another_opcode_of_the_job_is_no_proof() -> None:
    assert claim_order(WORKS, {"a": {"1.1.1"}, "b": set()}) == ()

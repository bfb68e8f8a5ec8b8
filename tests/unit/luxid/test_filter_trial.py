"""For which jobs a rule would be, beside the word of the chain with that rule in it. Source: luxid.md 6.2."""

from itertools import product
from typing import Any

import pytest

from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.filters import compile_chain
from common.queue.jobs import Job, JobOp
from daemons.luxid.core.filters.filtering import Trial
from tests.support.filterrules import filter_rule
from tests.support.naive.chain import applying

DUMMY = ["opcode", ["==", "OP_ID", "OP_TEST_DUMMY"]]
OLD = ["jobid", ["<=", "id", 5]]


def rule(action: Any, *predicates: Any, uuid: str = "tried", priority: int = 3, watermark: int = 9) -> FilterRule:
    return filter_rule(
        watermark=JobId(watermark), priority=priority, predicates=predicates, action=action, reason_trail=(), uuid=uuid
    )


RULES = [
    rule("ACCEPT", OLD, uuid="a", priority=1),
    rule("CONTINUE", uuid="b", priority=2),
    rule("PAUSE", DUMMY, uuid="c", priority=3, watermark=8),
    rule("REJECT", uuid="d", priority=3, watermark=10),
]
JOBS = [
    Job(JobId(number), (JobOp(input={"OP_ID": op_id}),))
    for number, op_id in product((4, 7), ("OP_TEST_DUMMY", "OP_TEST_DELAY"))
]


@pytest.mark.parametrize("action", ["ACCEPT", "PAUSE", "REJECT", ["RATE_LIMIT", 2]])
def test_a_rule_is_for_the_jobs_about_which_it_would_decide(action: Any) -> None:
    uuids = ["tried", *(each.uuid for each in RULES)]
    for predicates, uuid, priority in product([(), (DUMMY,), (OLD,)], uuids, range(5)):
        tried = rule(action, *predicates, uuid=uuid, priority=priority)
        chain = compile_chain([*(each for each in RULES if each.uuid != uuid), tried])

        trial = Trial.of(tried, RULES)

        for job in JOBS:
            found = applying(chain, job)
            assert trial.is_for(job) is (found is not None and found.rule is tried), (tried, job)


def test_a_rule_that_only_continues_is_for_the_jobs_that_come_to_it() -> None:
    trial = Trial.of(rule("CONTINUE", DUMMY, priority=2), RULES)

    assert [job.job_id for job in JOBS if trial.is_for(job)] == [7]

"""What the chain of filter rules says about each job: asked once for a job and a chain.

Source: luxid.md 6.2; DESIGN section 11.
"""

from collections.abc import Iterable
from typing import Final

import attrs

from common.filters import ActionKind, CompiledRule, FilterChain, compile_chain
from common.jobs import Job
from common.objects.filter import FilterRule
from common.reasons import rate_buckets
from daemons.luxid.core.ratelimit import BucketLimit, Limit, RuleLimit


@attrs.frozen(eq=False)
class Ruling:
    """The word of the chain."""

    # what applies; ACCEPT without a rule: none does
    kind: ActionKind = ActionKind.ACCEPT
    rule: FilterRule | None = None
    # of a rule with RATE_LIMIT
    limits: tuple[Limit, ...] = ()

    @property
    def is_pause(self) -> bool:
        return self.kind is ActionKind.PAUSE


_ACCEPTED: Final = Ruling()


class Filtering:
    """The chain in force."""

    def __init__(self) -> None:
        self._chain = FilterChain()
        self._rulings: dict[CompiledRule, Ruling] = {}
        # grows with each other chain
        self.version = 0
        # jobs that were held against a chain so far
        self.judged = 0

    def replace(self, rules: Iterable[FilterRule]) -> bool:
        """Put these rules in force; answers whether that is another chain.

        Raises: InvalidRequest: a rule is wrong; the chain in force stays.
        """
        chain = compile_chain(rules)
        if [each.rule for each in chain.rules] == [each.rule for each in self._chain.rules]:
            return False
        self._chain = chain
        self._rulings = {each: _ruling(each) for each in chain.rules}
        self.version += 1
        return True

    def judge(self, job: Job) -> Ruling:
        self.judged += 1
        rule = self._chain.applying(job)
        return self._rulings[rule] if rule is not None else _ACCEPTED


def _ruling(rule: CompiledRule) -> Ruling:
    count = rule.action.limit
    limits = (RuleLimit(rule.rule.uuid, count),) if count is not None else ()
    return Ruling(rule.action.kind, rule.rule, limits)


def bucket_limits(job: Job) -> tuple[Limit, ...]:
    """The buckets that the job names in its reasons."""
    found = rate_buckets(op.input.get("reason") for op in job.ops)
    return tuple(sorted((BucketLimit(bucket.text, bucket.limit) for bucket in found), key=lambda limit: limit.name))

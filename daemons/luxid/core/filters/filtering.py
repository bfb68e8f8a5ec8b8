"""What the chain of filter rules says about each job.

Theory. A rule that did not match a job will not, as long as both stay what they are. So of a new chain only those
rules are asked that may change the word of the one before: rules that came with it, if they are before the one that
applied; and if that one is gone, also those behind it. Which of them are out of the question for all jobs with opcodes
of certain names, or match all of them, says `static match`; the jobs themselves are held against the rest.

Source: luxid.md 6.2; DESIGN section 11.
"""

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from common.objects.filter import FilterRule
from common.queue.filteractions import ActionKind
from common.queue.filters import CompiledRule, compile_chain
from common.queue.jobs import Job
from common.queue.reasons import rate_buckets
from daemons.luxid.core.choice.ratelimit import BucketLimit, Limit, RuleLimit
from daemons.luxid.core.filters.staticmatch import OpIds, StaticMatch, static_match_of


@attrs.frozen(eq=False)
class Ruling:
    """The word of the chain; the very same as long as the same rule applies."""

    # what applies; ACCEPT without a rule: none does
    kind: ActionKind = ActionKind.ACCEPT
    rule: FilterRule | None = None
    # of a rule with RATE_LIMIT
    limits: tuple[Limit, ...] = ()

    @property
    def is_pause(self) -> bool:
        return self.kind is ActionKind.PAUSE

    @property
    def is_restraint(self) -> bool:
        """Whether another word may let a job start that cannot by this one."""
        return self.is_pause or bool(self.limits)


ACCEPTED: Final = Ruling()


@attrs.frozen(eq=False)
class RuleInForce:
    """A rule that can apply."""

    compiled: CompiledRule
    ruling: Ruling
    static_match: Callable[[OpIds], StaticMatch]
    # the number of the chain with which it came
    since: int


@attrs.frozen(eq=False)
class Shortlist:
    """What is known of the word on some jobs before they are looked at."""

    # the first of these that matches applies
    rules: tuple[RuleInForce, ...]
    # when none does
    otherwise: Ruling


class Filtering:
    """The chain in force."""

    def __init__(self) -> None:
        # in their order, without those that say CONTINUE: they never apply
        self._rules: tuple[RuleInForce, ...] = ()
        self._chain: list[FilterRule] = []
        # of a job of which nothing is known
        self._whole_chain = Shortlist((), ACCEPTED)
        # grows with each other chain
        self._version = 0
        # jobs that were held against rules so far
        self.judged = 0

    def replace(self, rules: Iterable[FilterRule]) -> bool:
        """Put these rules in force; answers whether that is another chain.

        Raises: InvalidRequest: a rule is wrong; the chain in force stays.
        """
        chain = compile_chain(rules).rules
        if [each.rule for each in chain] == self._chain:
            return False
        self._chain = [each.rule for each in chain]
        self._version += 1
        had = {each.compiled.rule.uuid: each for each in self._rules}
        applicable = [each for each in chain if each.action.kind is not ActionKind.CONTINUE]
        self._rules = tuple(self._renewed(each, had.get(each.rule.uuid)) for each in applicable)
        self._whole_chain = Shortlist(self._rules, ACCEPTED)
        return True

    def judge(self, job: Job) -> Ruling:
        """The word of the chain on a job of which nothing is known."""
        return self.judge_by(job, self._whole_chain)

    def judge_by(self, job: Job, shortlist: Shortlist) -> Ruling:
        """The word of the chain on one of the jobs that this shortlist is about."""
        if not shortlist.rules:
            return shortlist.otherwise
        self.judged += 1
        return next((each.ruling for each in shortlist.rules if each.compiled.matches(job)), shortlist.otherwise)

    def shortlist(self, ruling: Ruling, op_ids: OpIds) -> Shortlist:
        """What may be said of jobs with opcodes of these names, if `ruling` was the word of the chain before."""
        may_apply: list[RuleInForce] = []
        for rule in self._rules:
            if rule.ruling is ruling:
                return Shortlist(tuple(may_apply), ruling)
            if rule.since == self._version or _was_behind(rule.compiled.rule, ruling.rule):
                static_match = rule.static_match(op_ids)
                if static_match is StaticMatch.ALWAYS:
                    return Shortlist(tuple(may_apply), rule.ruling)
                if static_match is StaticMatch.MAYBE:
                    may_apply.append(rule)
        return Shortlist(tuple(may_apply), ACCEPTED)

    def _renewed(self, compiled: CompiledRule, had: RuleInForce | None) -> RuleInForce:
        if had is not None and had.compiled.rule == compiled.rule:
            return had
        return RuleInForce(compiled, _ruling(compiled), static_match_of(compiled.rule), self._version)


def _was_behind(rule: FilterRule, applied: FilterRule | None) -> bool:
    """Whether the chain before never came to this rule, as one that applied was first."""
    return applied is not None and _order_key(rule) >= _order_key(applied)


def _order_key(rule: FilterRule) -> tuple[int, int, str]:
    return rule.priority, rule.watermark, rule.uuid


def _ruling(rule: CompiledRule) -> Ruling:
    count = rule.action.limit
    limits = (RuleLimit(rule.rule.uuid, count),) if count is not None else ()
    return Ruling(rule.action.kind, rule.rule, limits)


def bucket_limits(job: Job) -> tuple[Limit, ...]:
    """The buckets that the job names in its reasons."""
    found = rate_buckets([op.input.get("reason") for op in job.ops])
    if not found:
        return ()
    return tuple(sorted((BucketLimit(bucket.text, bucket.limit) for bucket in found), key=lambda limit: limit.name))

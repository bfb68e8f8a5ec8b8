"""The chain of filter rules, and its ruling on each job.

Theory. A rule that did not match a job will not, as long as both stay what they are. So a new chain is asked only by
those rules that may change the ruling: rules that came with it, if they stand before the rule that applied; and if
that one is gone, also those behind it. `staticmatch` tells which of them match none, or all, of the jobs whose opcodes
have certain names; the other rules are tested on each job.

Source: luxid.md 6.2; DESIGN section 11.
"""

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from common.objects.filter import FilterRule
from common.queue.batch import batch_of
from common.queue.filters.actions import Action, ActionKind
from common.queue.filters.rules import CompiledRule, compile_chain
from common.queue.jobs import Job
from common.queue.reasons import rate_buckets
from common.queue.submitter import owner_of
from daemons.luxid.core.choice.ratelimit import BatchLimit, BucketLimit, Limit, RuleLimit
from daemons.luxid.core.filters.staticmatch import OpIds, StaticMatch, static_match_of


@attrs.frozen(eq=False)
class Ruling:
    """What the chain says of a job; the same object as long as the same rule applies."""

    # action of the rule that applies; ACCEPT without a rule: none applies
    kind: ActionKind = ActionKind.ACCEPT
    rule: FilterRule | None = None
    # limit of a rule with RATE_LIMIT
    limits: tuple[Limit, ...] = ()

    @property
    def is_pause(self) -> bool:
        return self.kind is ActionKind.PAUSE

    @property
    def is_restraint(self) -> bool:
        """Whether another ruling may let a job start that this one keeps back."""
        return self.is_pause or bool(self.limits)


ACCEPTED: Final = Ruling()


@attrs.frozen(eq=False)
class RuleInForce:
    """A rule that can apply."""

    compiled: CompiledRule
    ruling: Ruling
    static_match: Callable[[OpIds], StaticMatch]
    # version of the chain with which the rule came
    since: int


@attrs.frozen(eq=False)
class Shortlist:
    """What is known of the ruling on some jobs before they are looked at."""

    # rules to test in order: the first that matches applies
    rules: tuple[RuleInForce, ...]
    # ruling if none matches
    otherwise: Ruling


class Filtering:
    """The chain in force."""

    def __init__(self) -> None:
        # rules in their order, without those that say CONTINUE: they never apply
        self._rules: tuple[RuleInForce, ...] = ()
        self._chain: list[FilterRule] = []
        # shortlist for a job of which nothing is known
        self._whole_chain = Shortlist((), ACCEPTED)
        # version of the chain: grows when it changes
        self._version = 0
        # number of jobs tested so far
        self.judged = 0

    def replace(self, rules: Iterable[FilterRule]) -> bool:
        """Put these rules in force; returns whether the chain has changed.

        Raises: InvalidRequest: a rule is wrong; the chain in force stays.
        """
        chain = compile_chain(rules)
        if [each.rule for each in chain] == self._chain:
            return False
        self._chain = [each.rule for each in chain]
        self._version += 1
        had = {each.compiled.rule.uuid: each for each in self._rules}
        applicable = [each for each in chain if each.action.kind is not ActionKind.CONTINUE]
        self._rules = tuple(self._renewed(each, had.get(each.rule.uuid)) for each in applicable)
        self._whole_chain = Shortlist(self._rules, ACCEPTED)
        return True

    def limits(self) -> dict[str, int | None]:
        """The rules in force, in their order, by uuid; for RATE_LIMIT with the limit."""
        return {rule.uuid: Action.from_wire(rule.action).limit for rule in self._chain}

    def judge(self, job: Job) -> Ruling:
        """Return the ruling on a job of which nothing is known."""
        return self.judge_by(job, self._whole_chain)

    def judge_by(self, job: Job, shortlist: Shortlist) -> Ruling:
        """Return the ruling on a job for which this shortlist was made."""
        if not shortlist.rules:
            return shortlist.otherwise
        self.judged += 1
        return next((each.ruling for each in shortlist.rules if each.compiled.matches(job)), shortlist.otherwise)

    def shortlist(self, ruling: Ruling, op_ids: OpIds) -> Shortlist:
        """Return the shortlist for jobs with opcodes of these names, if `ruling` was the ruling of the chain before."""
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
    """Whether the chain before never came to this rule, because one before it applied."""
    return applied is not None and _order_key(rule) >= _order_key(applied)


def _order_key(rule: FilterRule) -> tuple[int, int, str]:
    return rule.priority, rule.watermark, rule.uuid


def _ruling(rule: CompiledRule) -> Ruling:
    count = rule.action.limit
    limits = (RuleLimit(rule.rule.uuid, count),) if count is not None else ()
    return Ruling(rule.action.kind, rule.rule, limits)


def bucket_limits(job: Job) -> tuple[Limit, ...]:
    """Return the limits that the job names in its reasons: that of its batch, and buckets."""
    found = rate_buckets([op.input.get("reason") for op in job.ops])
    of_batch = _batch_limits(job)
    if not found:
        return of_batch
    buckets = sorted((BucketLimit(bucket.text, bucket.limit) for bucket in found), key=lambda limit: limit.name)
    return (*of_batch, *buckets)


def _batch_limits(job: Job) -> tuple[Limit, ...]:
    batch = batch_of(job)
    if batch is None or batch.at_most is None:
        return ()
    return (BatchLimit(batch.batch_id, batch.at_most, owner_of(job)),)

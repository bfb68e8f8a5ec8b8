"""The chain of filter rules, and its ruling on each job.

Theory. A rule that did not match a job will not, as long as both stay what they are. So a new chain is asked only by
those rules that may change the ruling: rules that came with it, if they stand before the rule that applied; and if
that one is gone, also those behind it. `staticmatch` tells which of them match none, or all, of the jobs whose opcodes
have certain names; the other rules are tested on each job.

Source: luxid.md 6.2; DESIGN section 11.
"""

import enum
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final, Self

import attrs

from common.ids import JobId
from common.objects.filter import ActionKind, FilterRule
from common.query.predicate import PREDICATE, Field, compile_expression
from common.query.qlang import All, Expression, Some
from common.queue.filters import CompiledRule, compile_chain
from common.queue.jobs import Job
from common.queue.reasons import RATE_LIMIT, batch_of, owner_of, rate_buckets, trail_with
from daemons.luxid.core.choice.limits import BatchLimit, BucketLimit, Limit, RuleLimit

# What a filter rule says of all jobs whose opcodes have certain names, without looking at anything else.
#
# Theory. Most rules name an opcode, perhaps with a condition on its parameters. By the names alone many jobs are out of
# the question, at once for all of them. A static match is one of three words, and they are in an order:
#
#     NEVER < MAYBE < ALWAYS
#
# A rule is as bad as its worst predicate, a predicate as good as its best opcode. An expression over OP_ID alone is
# just tested. In any other, `&` is as bad as its worst part; `|` is NEVER if all of its parts are; the rest is MAYBE:
# so is a negation, and so is an ALWAYS beside other conditions, as one of those may make the whole expression false
# (`common.queue.filters`).
#
# Source: luxid.md 6.2, 6.3.


# names of the opcodes of a job; None: one has no name
OpIds = frozenset[str | None]

_OP_ID: Final = "OP_ID"
_FIELDS: Final[dict[str, Field[str]]] = {_OP_ID: Field(lambda op_id: op_id)}


class StaticMatch(enum.IntEnum):
    """Whether a rule matches jobs with opcodes of certain names."""

    NEVER = 0
    # the rule must be tested on each job
    MAYBE = 1
    ALWAYS = 2


def op_ids_of(job: Job) -> OpIds:
    """Return the names of the opcodes of a job, without order."""
    found = [op.input.get(_OP_ID) for op in job.ops]
    return _set_of(tuple([op_id if isinstance(op_id, str) else None for op_id in found]))


# sets are shared, as every job has one
_set_of: Final[Callable[[tuple[str | None, ...]], OpIds]] = lru_cache(maxsize=1024)(frozenset)


def static_match_of(rule: FilterRule) -> Callable[[OpIds], StaticMatch]:
    """Return a function from the names of opcodes to the match; the rule is one that compiles."""
    of_opcodes = [each for each in rule.predicates if each.predicate == "opcode"]
    tests = [_compile(Expression.from_wire(each.expression)) for each in of_opcodes]
    best = StaticMatch.MAYBE if len(of_opcodes) < len(rule.predicates) else StaticMatch.ALWAYS
    return lambda op_ids: min([best, *(max(map(test, op_ids), default=StaticMatch.NEVER) for test in tests)])


def _compile(expression: Expression) -> Callable[[str | None], StaticMatch]:
    test = _compile_named(expression)
    return lambda op_id: StaticMatch.MAYBE if op_id is None else test(op_id)


def _compile_named(expression: Expression) -> Callable[[str], StaticMatch]:
    if set(expression.field_names()) <= {_OP_ID}:
        holds = compile_expression(expression, _FIELDS.get, PREDICATE)
        return lambda op_id: StaticMatch.ALWAYS if holds(op_id) else StaticMatch.NEVER
    match expression:
        case All(parts=parts):
            every = [_compile_named(part) for part in parts]
            return lambda op_id: min(StaticMatch.MAYBE, *(test(op_id) for test in every))
        case Some(parts=parts):
            some = [_compile_named(part) for part in parts]
            return lambda op_id: min(StaticMatch.MAYBE, max(test(op_id) for test in some))
        case _:
            return lambda _: StaticMatch.MAYBE


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
        return {rule.uuid: rule.action.limit for rule in self._chain}

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
    return applied is not None and rule.place >= applied.place


def _ruling(rule: CompiledRule) -> Ruling:
    count = rule.action.limit
    limits = (RuleLimit(rule.rule.uuid, count),) if count is not None else ()
    return Ruling(rule.action.kind, rule.rule, limits)


def bucket_limits(job: Job) -> tuple[Limit, ...]:
    """Return the limits that the job names in its reasons: that of its batch, and buckets."""
    found = rate_buckets([trail_with(op.input, RATE_LIMIT) for op in job.ops])
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


# Jobs sorted by what the chain of rules looks at first: the names of their opcodes, and the rule that now applies.
#
# There are as many filter classes as lists of opcodes of different names, times the rules that apply to any: few. A new
# chain is compared with the filter classes; only the jobs of those whose ruling it may change are looked at.
#
# Source: DESIGN section 6, "Filters".


@attrs.define(eq=False)
class FilterClass:
    """Jobs whose opcodes have the same names, under the same ruling."""

    op_ids: OpIds
    ruling: Ruling
    # jobs in the order in which they came
    members: dict[JobId, None] = attrs.field(factory=dict)
    # number of members that are ready; `entries` counts them where a phase changes, `judging` where a ruling does
    ready: int = 0


class FilterClasses:
    """All filter classes that have jobs."""

    def __init__(self) -> None:
        self._filter_classes: dict[tuple[OpIds, Ruling], FilterClass] = {}

    def __iter__(self) -> Iterator[FilterClass]:
        return iter(tuple(self._filter_classes.values()))

    def __len__(self) -> int:
        return len(self._filter_classes)

    def enter(self, job: Job, ruling: Ruling) -> FilterClass:
        """Put a job that is in no filter class into the one of its opcodes and this ruling."""
        return self._enter(job.job_id, op_ids_of(job), ruling)

    def move(self, job_id: JobId, filter_class: FilterClass, ruling: Ruling) -> FilterClass:
        """Take a job, whose opcodes are what they were, out of its filter class and into the one of this ruling."""
        self.leave(job_id, filter_class)
        return self._enter(job_id, filter_class.op_ids, ruling)

    def leave(self, job_id: JobId, filter_class: FilterClass) -> None:
        """Take a job out of its filter class."""
        del filter_class.members[job_id]
        if not filter_class.members:
            del self._filter_classes[filter_class.op_ids, filter_class.ruling]

    def _enter(self, job_id: JobId, op_ids: OpIds, ruling: Ruling) -> FilterClass:
        filter_class = self._filter_classes.get((op_ids, ruling))
        if filter_class is None:
            filter_class = self._filter_classes[op_ids, ruling] = FilterClass(op_ids, ruling)
        filter_class.members[job_id] = None
        return filter_class


# For which jobs a filter rule would be, before it is set.
#
# Source: filters design, "When a filter rule applies"; luxid.md 6.2.


@attrs.frozen
class Trial:
    """A rule at its place in the chain. Make one by `of`."""

    _rule: CompiledRule
    # rules that are asked earlier and may apply
    _earlier: tuple[CompiledRule, ...]

    @classmethod
    def of(cls, rule: FilterRule, rules: Iterable[FilterRule]) -> Self:
        """Try `rule` among the rules there are, one of which it replaces if that has its uuid.

        Raises: InvalidRequest: as `compile_chain`.
        """
        chain = compile_chain([*(each for each in rules if each.uuid != rule.uuid), rule])
        place = next(place for place, each in enumerate(chain) if each.rule is rule)
        earlier = (each for each in chain[:place] if each.action.kind is not ActionKind.CONTINUE)
        return cls(chain[place], tuple(earlier))

    def is_for(self, job: Job) -> bool:
        """Whether the rule matches the job, and no earlier one applies to it."""
        return self._rule.matches(job) and not any(each.matches(job) for each in self._earlier)

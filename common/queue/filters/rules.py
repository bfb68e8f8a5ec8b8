"""Job filters: rules that say whether jobs may run, and how many at once.

Theory. The rules are a chain in the order of (priority, watermark, uuid). A rule matches a job if all its
predicates do. The first matching rule whose action is not CONTINUE applies; without one the job may run.
A predicate is a name and an expression of the query language over the fields of that name (`predicates`).

A rule is read in two ways. A new rule is refused if a part of it can never match. In a stored rule an unknown field of
an opcode, or an unknown predicate, just never matches, so that the loss of a plug-in does not disable the other
rules.

Source: filters design; luxid.md 6; DESIGN section 11.
"""

from collections.abc import Iterable

import attrs

from common.errors import Denied, GantryError, InvalidRequest
from common.objects.filter import FilterRule
from common.query.predicate import Test
from common.query.qlang import Expression
from common.queue.filters.actions import Action
from common.queue.filters.predicates import known_predicates
from common.queue.jobs import Job


class JobRejected(Denied):
    """a filter rule rejects the job"""

    wire_name = "JobQueueError"


def rejection(rule: FilterRule) -> str:
    """The message for the submitter, with the reasons given for the rule."""
    reasons = "; ".join(f"{entry.source}: {entry.reason}" for entry in rule.reason_trail if entry.reason)
    return f"rejected by filter rule {rule.uuid}{f' ({reasons})' if reasons else ''}"


@attrs.frozen(eq=False)
class CompiledRule:
    """A rule in executable form."""

    rule: FilterRule
    action: Action
    _tests: tuple[Test[Job], ...]

    def matches(self, job: Job) -> bool:
        return all(test(job) for test in self._tests)


def compile_chain(rules: Iterable[FilterRule]) -> tuple[CompiledRule, ...]:
    """Compile these rules into a chain, in the order of evaluation.

    Raises: InvalidRequest: names the first faulty rule, the place and the reason.
    """
    ordered = sorted(rules, key=lambda rule: (rule.priority, rule.watermark, rule.uuid))
    return tuple(_compile_stored(rule) for rule in ordered)


def _compile_stored(rule: FilterRule) -> CompiledRule:
    try:
        return _compile(rule, is_new=False)
    except GantryError as error:
        raise InvalidRequest(f"filter rule {rule.uuid}: {error.message}", uuid=rule.uuid) from error


def read_rule(rule: FilterRule) -> FilterRule:
    """Check a new rule: it must be able to match. Returns it with its expressions in normal form.

    Raises: InvalidRequest: what is wrong, and where: `predicates[1] (opcode): filter $[2]: ...`.
    """
    _compile(rule, is_new=True)
    normal = tuple([name, Expression.from_wire(value).to_wire()] for name, value in rule.conditions())
    return attrs.evolve(rule, predicates=normal)


def check_parts(priority: int, predicates: object, action: object) -> Action:
    """Return the action of a rule whose parts have the right form; expressions are not checked.

    Raises: InvalidRequest: what is wrong, and where.
    """
    if priority < 0:
        raise InvalidRequest(f"priority: must be at least 0, got {priority}")
    _check_predicates(predicates)
    return Action.from_wire(list(action) if isinstance(action, tuple) else action)


def _check_predicates(predicates: object) -> None:
    if not isinstance(predicates, list | tuple):
        raise InvalidRequest(f"predicates: expected a list of [name, expression], got {predicates!r:.60}")
    for place, predicate in enumerate(predicates):
        if not isinstance(predicate, list | tuple) or len(predicate) != 2:
            raise InvalidRequest(f"predicates[{place}]: expected [name, expression], got {predicate!r:.60}")
        if not isinstance(predicate[0], str):
            raise InvalidRequest(f"predicates[{place}][0]: expected the name of a predicate, got {predicate[0]!r:.60}")
        if not isinstance(predicate[1], list | tuple | None):
            raise InvalidRequest(f"predicates[{place}][1]: expected a filter expression, got {predicate[1]!r:.60}")


def _compile(rule: FilterRule, *, is_new: bool) -> CompiledRule:
    action = check_parts(rule.priority, rule.predicates, rule.action)
    tests = tuple(
        _compile_predicate(rule, place, name, value, is_new) for place, (name, value) in enumerate(rule.conditions())
    )
    return CompiledRule(rule, action, tests)


def _compile_predicate(rule: FilterRule, place: int, name: str, value: object, is_new: bool) -> Test[Job]:
    predicate = known_predicates().get(name)
    if predicate is None:
        if is_new:
            known = ", ".join(known_predicates())
            raise InvalidRequest(f"predicates[{place}][0]: unknown predicate {name!r:.60}; known are {known}")
        return lambda _: False
    try:
        expression = Expression.from_wire(value)
        if is_new:
            predicate.check(expression)
    except GantryError as error:
        raise InvalidRequest(f"predicates[{place}] ({name}): {error.message}") from error
    return predicate.compile(expression, rule)

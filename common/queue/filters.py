"""Job filters: their rules, predicates and actions, and what they do to the queue."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Final

import attrs

from common.errors import Denied, GantryError, InvalidRequest
from common.objects.filter import Action, FilterRule, RuleCondition
from common.opcodes.registry import opcode_classes
from common.query.predicate import NO_VALUE, PREDICATE, Field, Test, compile_expression
from common.query.qlang import All, Compare, Contains, Expression, Not, Some
from common.queue.jobs import Job
from common.queue.terms import JobTerms, terms_of

# The predicates of filter rules, by name: each tests one subject of a job.
#
# The fields of an expression belong to the subject: the job's number (`jobid`); one of its opcodes (`opcode`: OP_ID and
# the keys of its input, nested values as `beparams.maxmem`); one entry of a reason trail (`reason`); or what its
# submitter calls it (`terms`: `name`, and `label.KEY` for each label). All operators work in each. A condition on a
# field that an opcode lacks is false, and its negation true. A condition on a field that no opcode has makes its whole
# expression false, also under `!`; so does `?`, `=~` or `=[]` on a value of another kind than it is for. Values of
# different kinds are unequal, and in the order null < bool < number < string < list < object. In `jobid` the text
# `watermark` stands for the rule's own watermark.
#
# Source: filters design; luxid.md 6.2, 6.3; DESIGN section 11.


WATERMARK: Final = "watermark"
# group of the entry points
GROUP: Final = "gantry.predicates"


@attrs.frozen
class Predicate:
    """A kind of condition on a job, with its own fields."""

    compile: Callable[[Expression, FilterRule], Test[Job]]
    # function that raises InvalidRequest if the expression can never match
    check: Callable[[Expression], None]


@cache
def known_predicates() -> Mapping[str, Predicate]:
    """Return every known predicate by its name; a package adds one by an entry point `NAME = module:PREDICATE`.

    Raises: InvalidRequest: two predicates have the same name.
    """
    known = dict(_OWN)
    for point in entry_points(group=GROUP):
        if point.name in known:
            raise InvalidRequest(f"{point.value} defines the filter predicate {point.name!r}, which there is already")
        known[point.name] = point.load()
    return known


# jobid

_JOB_ID: Final[Field[Job]] = Field(lambda job: job.job_id)


def _compile_job_id(expression: Expression, rule: FilterRule) -> Test[Job]:
    own = _with_watermark(expression, rule.watermark)
    return compile_expression(own, {"id": _JOB_ID}.get, PREDICATE)


def _with_watermark(expression: Expression, watermark: int) -> Expression:
    match expression:
        case All(parts=parts) | Some(parts=parts):
            return attrs.evolve(expression, parts=tuple(_with_watermark(part, watermark) for part in parts))
        case Not(part=part):
            return Not(_with_watermark(part, watermark))
        case Compare(value=str() as value) | Contains(value=str() as value):
            # other texts have no order with job ids: an unknown field makes the whole expression false
            return attrs.evolve(expression, **({"value": watermark} if value == WATERMARK else {"field": ""}))
        case _:
            return expression


def _check_job_id(expression: Expression) -> None:
    _check_fields(expression, ("id",))
    for part in _leaves(expression):
        if isinstance(part, Compare | Contains) and isinstance(part.value, str) and part.value != WATERMARK:
            raise InvalidRequest(f"{part.to_wire()}: job ids compare with numbers or 'watermark', got {part.value!r}")


# opcode


def _compile_opcode(expression: Expression, _: FilterRule) -> Test[Job]:
    test = compile_expression(expression, _opcode_field, PREDICATE)
    return lambda job: any(test(op.input) for op in job.ops)


@cache
def _opcode_fields() -> frozenset[str]:
    return frozenset({"OP_ID"} | {field.name for kind in opcode_classes().values() for field in attrs.fields(kind)})


def _opcode_field(name: str) -> Field[Mapping[str, object]] | None:
    """None: no known opcode has the field, as when a plug-in is gone. An opcode may lack a field that others have."""
    path = name.split(".")
    if path[0] not in _opcode_fields():
        return None

    def read(op_input: Mapping[str, object]) -> object:
        value: object = op_input
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                return NO_VALUE
            value = value[key]
        return value

    return Field(read)


def _check_opcode(expression: Expression) -> None:
    for name in expression.field_names():
        if _opcode_field(name) is None:
            raise InvalidRequest(f"no opcode has a field {name!r}; fields are OP_ID and the parameters of opcodes")


# reason


def _compile_reason(expression: Expression, _: FilterRule) -> Test[Job]:
    test = compile_expression(expression, _REASON_FIELDS.get, PREDICATE)

    return lambda job: any(test(entry) for op in job.ops for entry in _entries(op.input.get("reason")))


def _entries(trail: object) -> Sequence[object]:
    """Those of a trail in a job's file; a malformed one has none."""
    return trail if isinstance(trail, list | tuple) else ()


def _reason_part(place: int) -> Field[object]:
    def read(entry: object) -> object:
        return entry[place] if isinstance(entry, list | tuple) and len(entry) > place else NO_VALUE

    return Field(read)


_REASON_FIELDS: Final = {name: _reason_part(place) for place, name in enumerate(("source", "reason", "timestamp"))}


def _check_fields(expression: Expression, known: Iterable[str]) -> None:
    for name in expression.field_names():
        if name not in known:
            raise InvalidRequest(f"unknown field {name!r}; known are {', '.join(known)}")


def _leaves(expression: Expression) -> Iterable[Expression]:
    match expression:
        case All(parts=parts) | Some(parts=parts):
            for part in parts:
                yield from _leaves(part)
        case Not(part=part):
            yield from _leaves(part)
        case _:
            yield expression


# terms

_LABEL: Final = "label."


def _compile_terms(expression: Expression, _: FilterRule) -> Test[Job]:
    test = compile_expression(expression, _terms_field, PREDICATE)
    return lambda job: test(terms_of(job))


def _terms_field(name: str) -> Field[JobTerms] | None:
    if name == "name":
        return Field(lambda terms: terms.name or NO_VALUE)
    if name.startswith(_LABEL) and name != _LABEL:
        key = name.removeprefix(_LABEL)
        return Field(lambda terms: terms.labels.get(key, NO_VALUE))
    return None


def _check_terms(expression: Expression) -> None:
    for name in expression.field_names():
        if _terms_field(name) is None:
            raise InvalidRequest(f"unknown field {name!r}; known are name, and label.KEY for each label")


_OWN: Final[Mapping[str, Predicate]] = {
    "jobid": Predicate(_compile_job_id, _check_job_id),
    "opcode": Predicate(_compile_opcode, _check_opcode),
    "reason": Predicate(_compile_reason, lambda expression: _check_fields(expression, _REASON_FIELDS)),
    "terms": Predicate(_compile_terms, _check_terms),
}


# Job filters: rules that say whether jobs may run, and how many at once.
#
# Theory. The rules are a chain in the order of (priority, watermark, uuid). A rule matches a job if all its
# predicates do. The first matching rule whose action is not CONTINUE applies; without one the job may run.
# A predicate is a name and an expression of the query language over the fields of that name (`predicates`).
#
# A rule is read in two ways. A new rule is refused if a part of it can never match. In a stored rule an unknown field
# of an opcode, or an unknown predicate, just never matches, so that the loss of a plug-in does not disable the other
# rules.
#
# Source: filters design; luxid.md 6; DESIGN section 11.


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
    _tests: tuple[Test[Job], ...]

    @property
    def action(self) -> Action:
        return self.rule.action

    def matches(self, job: Job) -> bool:
        return all(test(job) for test in self._tests)


def compile_chain(rules: Iterable[FilterRule]) -> tuple[CompiledRule, ...]:
    """Compile these rules into a chain, in the order of evaluation.

    Raises: InvalidRequest: names the first faulty rule, the place and the reason.
    """
    ordered = sorted(rules, key=lambda rule: rule.place)
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
    normal = (
        RuleCondition(each.predicate, Expression.from_wire(each.expression).to_wire()) for each in rule.predicates
    )
    return attrs.evolve(rule, predicates=tuple(normal))


def _compile(rule: FilterRule, *, is_new: bool) -> CompiledRule:
    tests = tuple(_compile_condition(rule, place, is_new) for place in range(len(rule.predicates)))
    return CompiledRule(rule, tests)


def _compile_condition(rule: FilterRule, place: int, is_new: bool) -> Test[Job]:
    name = rule.predicates[place].predicate
    predicate = known_predicates().get(name)
    if predicate is None:
        if is_new:
            known = ", ".join(known_predicates())
            raise InvalidRequest(f"predicates[{place}][0]: unknown predicate {name!r:.60}; known are {known}")
        return lambda _: False
    try:
        expression = Expression.from_wire(rule.predicates[place].expression)
        if is_new:
            predicate.check(expression)
    except GantryError as error:
        raise InvalidRequest(f"predicates[{place}] ({name}): {error.message}") from error
    return predicate.compile(expression, rule)

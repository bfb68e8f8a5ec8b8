"""Job filters: rules that say whether, and how many at once, jobs may run.

Theory. The rules are a chain in the order of (priority, watermark, uuid). A rule matches a job if all its
predicates do; the first that matches and does not say CONTINUE is the one that applies. None: the job may run.

A predicate is a name and an expression of the query language over fields: of the job's number (`jobid`), of
one of its opcodes (`opcode`: OP_ID and all that stands in it, inner values by `beparams.maxmem`), or of one entry
of a reason trail (`reason`). All operators work in each. A condition on something that is not there, or of
another kind, makes its expression false, also under `!`. In `jobid` the text `watermark` stands for the rule's own.

A rule is read in two ways. One that somebody sets is refused for anything that could not match ever; of one
that is stored already, an opcode's field that nobody knows any more just never matches, so that the
loss of a plug-in does not take the other rules away.

Source: filters design; luxid.md 6; DESIGN section 11.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from common.errors import Denied, GantryError, InvalidRequest
from common.jobs import Job
from common.objects.filter import FilterRule
from common.opcodes.registry import opcode_classes
from common.predicate import NO_VALUE, PREDICATE, Field, Test, compile_expression
from common.qlang import All, Compare, Contains, Expression, Not, Some

WATERMARK: Final = "watermark"


class JobRejected(Denied):
    """a filter rule rejects the job"""

    wire_name = "JobQueueError"


def rejection(rule: FilterRule, place: int | None) -> str:
    """What the submitter is told, with the reasons that were given for the rule.

    Args:
        place: of the job in its submission, from 1; None: it is the only one.
    """
    where = f"job {place}: " if place is not None else ""
    reasons = "; ".join(f"{entry.source}: {entry.reason}" for entry in rule.reason_trail if entry.reason)
    return f"{where}rejected by filter rule {rule.uuid}{f' ({reasons})' if reasons else ''}"


class ActionKind(enum.Enum):
    """What becomes of a job to which the rule applies; the value is the word on the wire."""

    ACCEPT = "ACCEPT"
    PAUSE = "PAUSE"
    REJECT = "REJECT"
    CONTINUE = "CONTINUE"
    RATE_LIMIT = "RATE_LIMIT"


@attrs.frozen
class Action:
    kind: ActionKind
    # > 0 with RATE_LIMIT, else None
    limit: int | None = None

    def to_wire(self) -> Any:
        return self.kind.value if self.limit is None else [self.kind.value, self.limit]

    @classmethod
    def from_wire(cls, value: Any) -> "Action":
        """Raises: InvalidRequest: no action, or a limit that is not greater than 0."""
        match value:
            case "ACCEPT" | "PAUSE" | "REJECT" | "CONTINUE":
                return cls(ActionKind(value))
            case ["RATE_LIMIT", int() as limit] if not isinstance(limit, bool):
                if limit <= 0:
                    raise InvalidRequest(f"action: RATE_LIMIT must be greater than 0, got {limit}; PAUSE lets none run")
                return cls(ActionKind.RATE_LIMIT, limit)
        raise InvalidRequest(
            f"action: expected ACCEPT, PAUSE, REJECT, CONTINUE or ['RATE_LIMIT', n], got {value!r:.60}"
        )


@attrs.frozen(eq=False)
class CompiledRule:
    """A rule that can be asked."""

    rule: FilterRule
    action: Action
    _tests: tuple[Test[Job], ...]

    def matches(self, job: Job) -> bool:
        return all(test(job) for test in self._tests)


@attrs.frozen(eq=False)
class FilterChain:
    """All rules, in the order in which they are asked. Make one by `compile_chain`."""

    rules: tuple[CompiledRule, ...] = ()

    def applying(self, job: Job) -> CompiledRule | None:
        """The rule that decides about the job.

        Cost: linear in the rules up to the one that applies.
        """
        for rule in self.rules:
            if rule.action.kind is not ActionKind.CONTINUE and rule.matches(job):
                return rule
        return None


def compile_chain(rules: Iterable[FilterRule]) -> FilterChain:
    """The chain of these rules.

    Raises: InvalidRequest: names the first rule that is wrong, the place and the reason.
    """
    ordered = sorted(rules, key=lambda rule: (rule.priority, rule.watermark, rule.uuid))
    return FilterChain(tuple(_compile_stored(rule) for rule in ordered))


def _compile_stored(rule: FilterRule) -> CompiledRule:
    try:
        return _compile(rule, is_new=False)
    except GantryError as error:
        raise InvalidRequest(f"filter rule {rule.uuid}: {error.message}", uuid=rule.uuid) from error


def read_rule(rule: FilterRule) -> FilterRule:
    """A rule that somebody wants to set, if it is one that can match; its expressions in their normal form.

    Raises: InvalidRequest: what is wrong, and where: `predicates[1] (opcode): filter $[2]: ...`.
    """
    _compile(rule, is_new=True)
    normal = tuple([name, Expression.from_wire(value).to_wire()] for name, value in rule.predicates)
    return attrs.evolve(rule, predicates=normal)


def check_parts(priority: int, predicates: Any, action: Any) -> Action:
    """The action of a rule whose parts are of the right form; expressions are not looked at.

    Raises: InvalidRequest: what is wrong, and where.
    """
    if priority < 0:
        raise InvalidRequest(f"priority: must be at least 0, got {priority}")
    _check_predicates(predicates)
    return Action.from_wire(list(action) if isinstance(action, tuple) else action)


def _check_predicates(predicates: Any) -> None:
    if not isinstance(predicates, list | tuple):
        raise InvalidRequest(f"predicates: expected a list of [name, expression], got {predicates!r:.60}")
    for place, predicate in enumerate(predicates):
        if not isinstance(predicate, list | tuple) or len(predicate) != 2:
            raise InvalidRequest(f"predicates[{place}]: expected [name, expression], got {predicate!r:.60}")
        if not isinstance(predicate[0], str) or predicate[0] not in _PREDICATES:
            known = ", ".join(_PREDICATES)
            raise InvalidRequest(f"predicates[{place}][0]: unknown predicate {predicate[0]!r:.60}; known are {known}")


def _compile(rule: FilterRule, *, is_new: bool) -> CompiledRule:
    action = check_parts(rule.priority, rule.predicates, rule.action)
    tests = tuple(
        _compile_predicate(rule, place, name, value, is_new) for place, (name, value) in enumerate(rule.predicates)
    )
    return CompiledRule(rule, action, tests)


def _compile_predicate(rule: FilterRule, place: int, name: str, value: Any, is_new: bool) -> Test[Job]:
    predicate = _PREDICATES[name]
    try:
        expression = Expression.from_wire(value)
        if is_new:
            predicate.check(expression)
    except GantryError as error:
        raise InvalidRequest(f"predicates[{place}] ({name}): {error.message}") from error
    return predicate.compile(expression, rule)


@attrs.frozen
class _Predicate:
    compile: Callable[[Expression, FilterRule], Test[Job]]
    # raises InvalidRequest if the expression can never match
    check: Callable[[Expression], None]


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
            # no other text has an order with job ids: a field that is not there makes the whole false
            return attrs.evolve(expression, **({"value": watermark} if value == WATERMARK else {"field": ""}))
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


def _opcode_field(name: str) -> Field[Mapping[str, Any]]:
    path = name.split(".")

    def read(op_input: Mapping[str, Any]) -> Any:
        value: Any = op_input
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                return NO_VALUE
            value = value[key]
        return value

    return Field(read)


def _check_opcode(expression: Expression) -> None:
    known = {"OP_ID"} | {field.name for kind in opcode_classes().values() for field in attrs.fields(kind)}
    for name in expression.field_names():
        if name.partition(".")[0] not in known:
            raise InvalidRequest(f"no opcode has a field {name!r}; fields are OP_ID and the parameters of opcodes")


# reason


def _compile_reason(expression: Expression, _: FilterRule) -> Test[Job]:
    test = compile_expression(expression, _REASON_FIELDS.get, PREDICATE)

    def holds(job: Job) -> bool:
        return any(test(entry) for op in job.ops for entry in op.input.get("reason") or ())

    return holds


def _reason_part(place: int) -> Field[Any]:
    def read(entry: Any) -> Any:
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


_PREDICATES: Final[Mapping[str, _Predicate]] = {
    "jobid": _Predicate(_compile_job_id, _check_job_id),
    "opcode": _Predicate(_compile_opcode, _check_opcode),
    "reason": _Predicate(_compile_reason, lambda expression: _check_fields(expression, _REASON_FIELDS)),
}

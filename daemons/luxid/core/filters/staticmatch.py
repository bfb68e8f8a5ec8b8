"""What a filter rule says of all jobs whose opcodes have certain names, without looking at anything else.

Theory. Most rules name an opcode, perhaps with a condition on its parameters. By the names alone many jobs are out of
the question, at once for all of them. A static match is one of three words, and they are in an order:

    NEVER < MAYBE < ALWAYS

A rule is as bad as its worst predicate, a predicate as good as its best opcode. An expression over OP_ID alone is
just tested. In any other, `&` is as bad as its worst part; `|` is NEVER if all of its parts are; the rest is MAYBE:
so is a negation, and so is an ALWAYS beside other conditions, as one of those may make the whole expression false
(`common.queue.filters.predicates`).

Source: luxid.md 6.2, 6.3.
"""

import enum
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from common.objects.filter import FilterRule
from common.query.predicate import PREDICATE, Field, compile_expression
from common.query.qlang import All, Expression, Some
from common.queue.jobs import Job

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
    tests = [_compile(Expression.from_wire(value)) for name, value in rule.conditions() if name == "opcode"]
    best = StaticMatch.MAYBE if any(name != "opcode" for name, _ in rule.conditions()) else StaticMatch.ALWAYS
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

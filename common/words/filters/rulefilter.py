"""Filters for rules: predicates from a filter text that people type.

A predicate tests one subject: the job's number, its name and labels, one of its opcodes, or one entry of its reason
trail. The conditions on one subject in a series of `&` become one predicate, so they must hold for the same opcode,
or for the same entry.

Source: luxid.md 6.2, 6.3.
"""

from collections.abc import Iterator
from typing import Final

from common.errors import InvalidRequest
from common.words.fields import is_label
from common.words.filters.filtertext import Expression, condition, inner_expressions, parse_filter
from common.words.filters.jobfilter import all_of, op_id

# [what is tested, expression]
Predicate = list[str | Expression | None]

_NESTING: Final = ("&", "|", "!")
# name -> (subject, its field); `label.KEY` is of the terms, too, and all other names are parameters of the opcode
_FIELDS: Final = {
    "id": ("jobid", "id"),
    "jobid": ("jobid", "id"),
    "name": ("terms", "name"),
    "op": ("opcode", "OP_ID"),
    "reason": ("reason", "reason"),
    "source": ("reason", "source"),
    "timestamp": ("reason", "timestamp"),
}
# fields of the subjects that hold texts; so does each label. The parameters of opcodes have kinds of their own
_TEXTS: Final = frozenset(("name", "OP_ID", "reason", "source"))


def rule_predicates(text: str) -> list[Predicate]:
    """Read a filter as the predicates of a rule, all of which must hold.

    Raises: InvalidRequest: as `parse_filter`; or a `|` or `!` joins several subjects.
    """
    whole = parse_filter(text)
    parts = list(inner_expressions(whole)) if whole[0] == "&" else [whole]
    found: dict[str, list[Expression]] = {}
    for part in parts:
        found.setdefault(_subject(part), []).append(_renamed(part))
    return [[subject, all_of(expressions)] for subject, expressions in found.items()]


def is_text_field(field: str) -> bool:
    """Whether a subject's field always holds a text."""
    return field in _TEXTS or is_label(field)


def _subject(expression: Expression) -> str:
    subjects = sorted({_field(name)[0] for name in _names(expression)})
    if len(subjects) > 1:
        raise InvalidRequest(
            f"filter: one condition joins {' and '.join(subjects)}, which a rule tests apart; "
            "join them by & only, or make a rule for each"
        )
    return subjects[0]


def _field(name: str) -> tuple[str, str]:
    """The subject that has this field, and what it is called there."""
    return ("terms", name) if is_label(name) else _FIELDS.get(name, ("opcode", name))


def _names(expression: Expression) -> Iterator[str]:
    if expression[0] in _NESTING:
        for part in inner_expressions(expression):
            yield from _names(part)
    else:
        yield condition(expression)[1]


def _renamed(expression: Expression) -> Expression:
    if expression[0] in _NESTING:
        return [expression[0], *map(_renamed, inner_expressions(expression))]
    operator, name, values = condition(expression)
    field = _field(name)[1]
    if name == "op" and operator in ("==", "!="):
        values = [op_id(value) for value in values]
    elif is_text_field(field):
        # a name or a label of digits is a text; and a text alone asks whether it is not empty
        operator, values = ("=~", ["."]) if operator == "?" else (operator, list(map(str, values)))
    return [operator, field, *values]

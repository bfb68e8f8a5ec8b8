"""Filters for rules: predicates from a filter text that people type.

A predicate tests one subject: the job's number, its name and labels, one of its opcodes, or one entry of its reason
trail. The conditions on one subject in a series of `&` become one predicate, so they must hold for the same opcode,
or for the same entry.

Source: luxid.md 6.2, 6.3.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from common.errors import InvalidRequest
from common.printable import json_text
from common.queue.reasons import USER_SOURCE, texts_of
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


# Rules in the words that people type: `reason=upgrade & id > watermark`, `RATE_LIMIT 1`, the reason that was given.
#
# Source: luxid.md 6.2; the inverse of `common.words.filters.rulefilter`.


# of a rule without predicates
ALL_JOBS: Final = "all jobs"
# source of the reason that the user gave with the rule
_SHORT: Final = {"OP_ID": "op"}
_JOINING: Final = {"&": " & ", "|": " | "}
_COMPARING: Final = {"==": "=", "=": "=", "!=": "!=", "<": " < ", "<=": " <= ", ">": " > ", ">=": " >= ", "=~": "=~"}
_BARE: Final = re.compile(r"""[^\s()&|!=<>"']+""")
# what a filter takes for a number, and for the beginning of a regular expression between signs
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)")
_MARKED: Final = re.compile(r"/|m[/#^]")


def where_text(predicates: object) -> str:
    """The predicates as a filter; JSON of what the filter's grammar cannot say."""
    if not isinstance(predicates, list | tuple):
        return json_text(predicates)
    return " & ".join(map(_predicate, predicates)) or ALL_JOBS


def action_text(action: object) -> str:
    """The action as `gnt-filter add --action` takes it."""
    if isinstance(action, str):
        return action
    return " ".join(map(str, action)) if isinstance(action, list | tuple) else json_text(action)


def reason_text(trail: object) -> str:
    """The reason that the user gave; empty: none."""
    return next(texts_of(trail, USER_SOURCE), "")


def _predicate(predicate: object) -> str:
    match predicate:
        case [str(), [*expression]]:
            return _expression(expression, is_inner=False)
        case _:
            return json_text(predicate)


def _expression(expression: Sequence[object], *, is_inner: bool) -> str:
    match expression:
        case ["&" | "|" as sign, *parts] if all(isinstance(part, list) for part in parts):
            joined = _JOINING[sign].join(_expression(part, is_inner=True) for part in parts if isinstance(part, list))
            return f"({joined})" if is_inner or sign == "|" else joined
        case ["!", [*part]]:
            return f"!({_expression(part, is_inner=False)})"
        case [str(sign), str(field), str(text)] if sign in _COMPARING:
            is_bare = _is_bare(sign, field, text)
            return f"{_SHORT.get(field, field)}{_COMPARING[sign]}{text if is_bare else _quoted(text)}"
        case [str(sign), str(field), int(number)] if sign in _COMPARING and _is_number(field, number):
            return f"{field}{_COMPARING[sign]}{number}"
        case _:
            return json_text(expression)


def _is_number(field: str, value: int) -> bool:
    """Whether a filter has this number for this field: what it compares with a text is a text."""
    return not isinstance(value, bool) and not is_text_field(field)


def _is_bare(sign: str, field: str, text: str) -> bool:
    """Whether a filter reads the text without quotes as it is."""
    if sign == "=~":
        return _BARE.fullmatch(text) is not None and _MARKED.match(text) is None
    return _BARE.fullmatch(text) is not None and (is_text_field(field) or _NUMBER.fullmatch(text) is None)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

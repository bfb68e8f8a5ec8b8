"""Rules in the words that people type: `reason=upgrade & id > watermark`, `RATE_LIMIT 1`, the reason that was given.

Source: luxid.md 6.2; the inverse of `common.words.filters.rulefilter`.
"""

import re
from collections.abc import Sequence
from typing import Final

from common.words.text import json_text

# of a rule without predicates
ALL_JOBS: Final = "all jobs"
# source of the reason that the user gave with the rule
_OF_USER: Final = "gnt:user"
_SHORT: Final = {"OP_ID": "op"}
_JOINING: Final = {"&": " & ", "|": " | "}
_COMPARING: Final = {"==": "=", "=": "=", "!=": "!=", "<": " < ", "<=": " <= ", ">": " > ", ">=": " >= ", "=~": "=~"}
_BARE: Final = re.compile(r"""[^\s()&|!=<>"']+""")


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
    for entry in trail if isinstance(trail, list | tuple) else ():
        match entry:
            case [str(source), str(text), _] if source == _OF_USER:
                return text
            case _:
                pass
    return ""


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
        case [str(sign), str(field), str() | int() as value] if sign in _COMPARING:
            return f"{_SHORT.get(field, field)}{_COMPARING[sign]}{_value(value)}"
        case _:
            return json_text(expression)


def _value(value: str | int) -> str:
    text = str(value)
    if _BARE.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

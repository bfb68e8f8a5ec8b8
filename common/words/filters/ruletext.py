"""Rules in the words that people type: `reason=upgrade & id > watermark`, `RATE_LIMIT 1`, the reason that was given.

Source: luxid.md 6.2; the inverse of `common.words.filters.rulefilter`.
"""

import re
from collections.abc import Sequence
from typing import Final

from common.words.filters.rulefilter import is_text_field
from common.words.text import json_text

# of a rule without predicates
ALL_JOBS: Final = "all jobs"
# source of the reason that the user gave with the rule
_OF_USER: Final = "gnt:user"
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

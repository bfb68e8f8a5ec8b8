"""Help with filters as they are typed: completion, and warnings."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from cli.options import Offer, completed
from cli.screen import warn
from common.queue.jobs import SUBMIT_PRIORITIES, JobState
from common.words.fields import FIELDS, LABEL
from common.words.filters.filtertext import starred
from common.words.filters.jobfilter import COMPARED

# Completion of filters and lists of fields: names of fields, and the values that the newest jobs have.
#
# Source: cli.md 1.4; `common.words.filters.jobfilter`.


# the field and the beginning of the value in the last condition of a filter
_VALUE: Final = re.compile(r"(.*?)([A-Za-z][\w./-]*)(\s*(?:==|!=|=)\s*)([^\s()&|!=<>\"']*)", re.DOTALL)
_NAME: Final = re.compile(r"(.*?)([A-Za-z][\w./-]*)?", re.DOTALL)
# what stands before a condition
_BEFORE: Final = re.compile(r"(?:.*[\s(&|!])?", re.DOTALL)
# fields that are true or false; they need no value
_FLAGS: Final = ("archived", "hold")
_FIXED: Final = {"status": tuple(state.value for state in JobState), "priority": tuple(SUBMIT_PRIORITIES)}
# name in filters -> luxid's field, for those whose values are asked for
_ASKED: Final = {"user": "user", "name": "name", "node": "node", "batch": "batch", "op": "opid"}
# a value that needs no quotes, in a filter and in a shell
_SAFE: Final = re.compile(r"[\w@%+:,./-]+")


def _filters(incomplete: str) -> Sequence[Offer]:
    """The last condition of a filter: its field, then its value."""
    found = _VALUE.fullmatch(incomplete)
    if found is not None and _BEFORE.fullmatch(found[1]):
        head, field, sign, _ = found.groups()
        return _offers(f"{head}{field}{sign}", _values(field))
    named = _NAME.fullmatch(incomplete)
    if named is None or not _BEFORE.fullmatch(named[1]):
        return ()
    return [(f"{named[1]}{name}", "") for name in _conditions(named[2] or "")]


def _fields(incomplete: str) -> Sequence[Offer]:
    """The last of several fields with commas."""
    plus = "+" if incomplete.startswith("+") else ""
    *before, begun = incomplete.removeprefix("+").split(",")
    head = plus + "".join(f"{name}," for name in before)
    columns = [f"{LABEL}{key}" for key in _keys()] if begun.startswith(LABEL) else [*FIELDS, LABEL]
    return [(f"{head}{name}", "") for name in columns if name not in before]


def _labels(incomplete: str) -> Sequence[Offer]:
    """`KEY=VALUE`, as the newest jobs have it."""
    key, sign, _ = incomplete.partition("=")
    if not sign:
        return [(f"{each}=", "") for each in _keys()]
    return _offers(f"{key}=", _values(LABEL + key))


def _offers(head: str, values: Iterable[str]) -> Sequence[Offer]:
    """Values that need no quotes, behind what was typed before."""
    return [(f"{head}{value}", "") for value in values if _SAFE.fullmatch(value)]


complete_filter: Final = completed(_filters)
complete_fields: Final = completed(_fields)
complete_label: Final = completed(_labels)
# by the newest jobs
complete_user: Final = completed(lambda _: _offers("", _values("user")))
complete_name: Final = completed(lambda _: _offers("", _values("name")))
complete_batch: Final = completed(lambda _: _offers("", ("PREV", *_values("batch"))))


def _conditions(begun: str) -> list[str]:
    """The beginnings of conditions: with `=` where a value can be completed."""
    if begun.startswith(LABEL):
        return [f"{LABEL}{key}=" for key in _keys()]
    fields = [name if name in _FLAGS else f"{name}=" if name in (*_FIXED, *_ASKED) else name for name in COMPARED]
    return [*fields, LABEL]


def _values(field: str) -> Sequence[str]:
    from cli.completion import seen_values

    if field in _FIXED:
        return _FIXED[field]
    asked = field if field.startswith(LABEL) else _ASKED.get(field)
    return seen_values(asked) if asked is not None else ()


def _keys() -> Sequence[str]:
    from cli.completion import seen_values

    return seen_values("labels")


# Warn of filters that can be read and are hardly meant so.


def warn_of_stars(text: str) -> None:
    """Warn of `name=foo*`: `=` compares whole values, `=*` matches patterns.

    Args: text: a filter that can be read.
    """
    for field, operator, value in starred(text):
        sign = "=" if operator == "=*" else "!="
        warn(
            f"'*' stands for itself in {field}{sign}{value}: {sign} compares whole values; "
            f"for a pattern write: {field} {operator} '{value}'"
        )

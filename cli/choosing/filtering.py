"""Help with filters as they are typed: completion, and warnings."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from cli.screen import warn
from common.queue.jobs import SUBMIT_PRIORITIES, JobState
from common.words.fields import FIELDS, LABEL
from common.words.filters.filtertext import starred
from common.words.filters.jobfilter import COMPARED

# Completion of filters and lists of fields: names of fields, and the values that the newest jobs have.
#
# Source: cli.md 1.4; `common.words.filters.jobfilter`.


if TYPE_CHECKING:
    # what completes a word imports it; the start of every other command does without
    from click.shell_completion import CompletionItem

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


def complete_filter(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The last condition of a filter: its field, then its value."""
    found = _VALUE.fullmatch(incomplete)
    if found is not None and _BEFORE.fullmatch(found[1]):
        head, field, sign, begun = found.groups()
        return _items(ctx, lambda: [f"{head}{field}{sign}{value}" for value in _values(field) if _fits(value, begun)])
    named = _NAME.fullmatch(incomplete)
    if named is None or not _BEFORE.fullmatch(named[1]):
        return []
    head, begun = named[1], named[2] or ""
    return _items(ctx, lambda: [f"{head}{name}" for name in _conditions(begun) if name.startswith(begun)])


def complete_fields(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The last of several fields with commas."""
    plus = "+" if incomplete.startswith("+") else ""
    *before, begun = incomplete.removeprefix("+").split(",")
    head = plus + "".join(f"{name}," for name in before)
    return _items(
        ctx, lambda: [f"{head}{name}" for name in _columns(begun) if name.startswith(begun) and name not in before]
    )


def complete_user(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The users who submitted the newest jobs."""
    return _items(ctx, lambda: [user for user in _values("user") if _fits(user, incomplete)])


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of the newest jobs."""
    return _items(ctx, lambda: [name for name in _values("name") if _fits(name, incomplete)])


def complete_batch(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The batches of the newest jobs, and PREV."""
    return _items(ctx, lambda: [each for each in ("PREV", *_values("batch")) if _fits(each, incomplete)])


def complete_label(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """`KEY=VALUE`, as the newest jobs have it."""
    key, sign, begun = incomplete.partition("=")
    if not sign:
        return _items(ctx, lambda: [f"{each}=" for each in _keys() if each.startswith(key)])
    return _items(ctx, lambda: [f"{key}={value}" for value in _values(LABEL + key) if _fits(value, begun)])


def _items(ctx: click.Context, texts: Callable[[], Sequence[str]]) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    # no command runs while the shell asks, so its context is not yet the current one
    with ctx.scope(cleanup=False):
        return [CompletionItem(text, type="nospace" if text.endswith(("=", ".")) else "plain") for text in texts()]


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


def _columns(begun: str) -> Sequence[str]:
    return [f"{LABEL}{key}" for key in _keys()] if begun.startswith(LABEL) else [*FIELDS, LABEL]


def _keys() -> Sequence[str]:
    from cli.completion import seen_values

    return seen_values("labels")


def _fits(value: str, begun: str) -> bool:
    return value.startswith(begun) and _SAFE.fullmatch(value) is not None


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

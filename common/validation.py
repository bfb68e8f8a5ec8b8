"""What a validator of an attrs class is told of the field that it checks, and what it tells of its rule.

A validator may have an attribute `schema`: its rule as keywords of JSON Schema, so that a document can tell what the
code checks: `at_least(0).schema == {"minimum": 0}`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

V = TypeVar("V", bound=Callable[..., Any])


class Checked(Protocol):
    """The field whose value is checked; fields of any type are."""

    @property
    def name(self) -> str: ...


def says(schema: Mapping[str, object]) -> Callable[[V], V]:
    """Give a validator its rule in JSON Schema."""

    def mark(validator: V) -> V:
        validator.schema = schema  # type: ignore[attr-defined]  # functions may have attributes
        return validator

    return mark


def rule_of(validator: object) -> Mapping[str, object]:
    """The rule of a validator, of several if it joins them; empty: it tells none."""
    rule = dict(getattr(validator, "schema", {}))
    for part in getattr(validator, "_validators", ()):
        rule |= rule_of(part)
    return rule

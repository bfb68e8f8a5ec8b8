"""What a validator of an attrs class is told of the field that it checks, and what it tells of its rule.

A validator may have an attribute `schema`: its rule as keywords of JSON Schema, so that a document can tell what the
code checks: `at_least(0).schema == {"minimum": 0}`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

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


# Checks of the values of settings, for fields of attrs classes.
#
# Raises, all: ValueError: the value is refused; the text says what is allowed.
#
# Source: common/settings.py.


# values of `cgroups`: the best version that works, one version only, or none
WAYS_TO_HOLD: Final = ("auto", "v2", "v1", "off")
# values of `enabled` where it depends on the rest of the settings
SWITCHES: Final = ("auto", "yes", "no")
# highest number of a TCP port
_LAST_PORT: Final = 65535


def positive(_: object, field: Checked, value: float) -> None:
    # this form refuses nan as well
    if not value > 0:
        raise ValueError(f"{field.name} must be greater than 0")


def not_negative(_: object, field: Checked, value: float) -> None:
    if not value >= 0:
        raise ValueError(f"{field.name} must be at least 0")


def file_mode(_: object, field: Checked, value: int) -> None:
    if not 0 <= value <= 0o777:
        raise ValueError(f"{field.name} must be a file mode such as 0o660")


def port(_: object, field: Checked, value: int) -> None:
    if not 1 <= value <= _LAST_PORT:
        raise ValueError(f"{field.name} must be a port from 1 to {_LAST_PORT}")


def one_of(words: Sequence[str]) -> Callable[[object, Checked, str], None]:
    def check(_: object, field: Checked, value: str) -> None:
        if value not in words:
            raise ValueError(f"{field.name} must be one of {', '.join(words)}")

    return check


# Read the values of settings from TOML, by the types of their fields.
#
# Source: common/settings.py.


def whole_number(value: object) -> int:
    # a bool is an int in Python, but a mistake in the settings
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _float(value: object) -> float:
    return value if isinstance(value, float) else float(whole_number(value))


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def list_of(read: Callable[[object], object]) -> Callable[[object], object]:
    def read_list(value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise TypeError
        return tuple(read(element) for element in value)

    return read_list


# type of a field -> (its name in messages, its reader; TypeError: the value has another type)
READERS: Final[Mapping[object, tuple[str, Callable[[object], object]]]] = {
    int: ("a whole number", whole_number),
    bool: ("true or false", _bool),
    float: ("a number", _float),
    str: ("a string", _str),
    tuple[str, ...]: ("a list of strings", list_of(_str)),
    tuple[float, ...]: ("a list of numbers", list_of(_float)),
}

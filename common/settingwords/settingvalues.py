"""Read the values of settings from TOML, by the types of their fields.

Source: common/settings.py.
"""

from collections.abc import Callable, Mapping
from typing import Final


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

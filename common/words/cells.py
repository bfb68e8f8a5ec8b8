"""The cells of lists of objects, as text: values by the kind of their field, and signs for those without a value.

Source: cli.md 1.3.
"""

import enum
from typing import Final, assert_never

from common.words.text import json_text
from common.words.times import clock

# state of a cell -> its sign, and its words
_SIGNS: Final = {1: ("??", "(unknown)"), 2: ("?", "(nodata)"), 3: ("-", "(unavail)"), 4: ("*", "(offline)")}
_STEP: Final = 1024


class Units(enum.Enum):
    """The unit of sizes; people read the one that fits."""

    PEOPLE = "h"
    MEBIBYTES = "m"
    GIBIBYTES = "g"
    TEBIBYTES = "t"


def cell_text(kind: str, state: int, value: object, units: Units, *, in_words: bool) -> str:
    """The text of a cell.

    Args:
        kind: of the field, as luxid names it.
        state: 0: it has a value.
        in_words: whether missing values are told in words.
    """
    if state:
        return _SIGNS.get(state, _SIGNS[2])[in_words]
    match value:
        case None:
            return ""
        case bool():
            return "Y" if value else "N"
        case int() | float() if kind == "unit":
            return size_text(value, units)
        case int() | float() if kind == "timestamp":
            return clock(value)
        case str():
            return value
        case list() if all(isinstance(part, str) for part in value):
            return ",".join(value)
        case _:
            return json_text(value)


def size_text(mebibytes: float, units: Units) -> str:
    """`512M`, `1.5G`; a bare number in a unit that was asked for."""
    match units:
        case Units.MEBIBYTES:
            return f"{mebibytes:.0f}"
        case Units.GIBIBYTES:
            return f"{mebibytes / _STEP:.1f}"
        case Units.TEBIBYTES:
            return f"{mebibytes / _STEP**2:.1f}"
        case Units.PEOPLE:
            return _fitting(mebibytes)
        case _:
            assert_never(units)


def _fitting(mebibytes: float) -> str:
    if mebibytes < _STEP:
        return f"{mebibytes:.0f}M"
    if mebibytes < _STEP**2:
        return f"{mebibytes / _STEP:.1f}G"
    return f"{mebibytes / _STEP**2:.1f}T"

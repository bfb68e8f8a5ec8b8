"""The cells of lists of objects, as text: values by the kind of their field, and signs for those without a value.

Source: cli.md 1.3.
"""

import enum
import unicodedata
from collections.abc import Sequence
from typing import Final, assert_never

from common.printable import json_text
from common.words.times import clock

# state of a cell -> its sign, and its words
_SIGNS: Final = {1: ("??", "(unknown)"), 2: ("?", "(nodata)"), 3: ("-", "(unavail)"), 4: ("*", "(offline)")}
_STEP: Final = 1024


class SizeUnit(enum.Enum):
    """The unit of sizes; people read the one that fits."""

    PEOPLE = "h"
    MEBIBYTES = "m"
    GIBIBYTES = "g"
    TEBIBYTES = "t"


def cell_text(kind: str, state: int, value: object, units: SizeUnit, *, in_words: bool) -> str:
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


def size_text(mebibytes: float, units: SizeUnit) -> str:
    """`512M`, `1.5G`; a bare number in a unit that was asked for."""
    match units:
        case SizeUnit.MEBIBYTES:
            return f"{mebibytes:.0f}"
        case SizeUnit.GIBIBYTES:
            return f"{mebibytes / _STEP:.1f}"
        case SizeUnit.TEBIBYTES:
            return f"{mebibytes / _STEP**2:.1f}"
        case SizeUnit.PEOPLE:
            return _fitting(mebibytes)
        case _:
            assert_never(units)


def _fitting(mebibytes: float) -> str:
    if mebibytes < _STEP:
        return f"{mebibytes:.0f}M"
    if mebibytes < _STEP**2:
        return f"{mebibytes / _STEP:.1f}G"
    return f"{mebibytes / _STEP**2:.1f}T"


# How many columns of a terminal a text takes, and texts cut to fit.
#
# Wide characters of East Asia take two columns, marks that are put on the character before them take none.


ELLIPSIS: Final = "…"
# columns that are left to a cut cell
_SHORTEST: Final = 12
_NO_WIDTH: Final = ("Mn", "Me", "Cf")


def columns_of(text: str) -> int:
    """The columns that a printable text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cut(text: str, columns: int) -> str:
    """The text if it fits, else its beginning and an ellipsis; at least 1 column."""
    if columns_of(text) <= columns:
        return text
    left, taken = columns - 1, ""
    for char in text:
        left -= _columns(char)
        if left < 0:
            break
        taken += char
    return f"{taken}{ELLIPSIS}"


def fitting(widths: Sequence[int], least: Sequence[int | None], room: int) -> list[int]:
    """The widths of the columns of a table, so that all fit into the room if they can.

    The widest is made narrower first, down to the next one.

    Args:
        widths: that each column wants.
        least: that each has at least, beside 12; None: the column is not cut.
        room: without the gaps.
    """
    fitted = list(widths)
    floors = {place: max(floor, _SHORTEST) for place, floor in enumerate(least) if floor is not None}
    while (excess := sum(fitted) - room) > 0:
        spare = [place for place, floor in floors.items() if fitted[place] > floor]
        if not spare:
            break
        # of equal ones the last, which is the summary
        widest = max(spare, key=lambda place: (fitted[place], place))
        next_one = max((fitted[place] for place in spare if place != widest), default=0)
        # of two that are equally wide each gives a column in turn
        target = min(max(floors[widest], next_one), fitted[widest] - 1)
        fitted[widest] -= min(excess, fitted[widest] - target)
    return fitted

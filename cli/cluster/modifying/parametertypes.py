"""Types of the options that change parameters of the cluster.

Source: Ganeti's `gnt-cluster modify --help` (seen).
"""

from collections.abc import Callable
from typing import Final

import click

from common.sizes import read_mebibytes

_MICROSECONDS: Final = 1_000_000
# longest interval; in microseconds it fits into 64 bits
_MOST_SECONDS: Final = 10**12
_COUNT_DIGITS: Final = 9
_YES: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
# action of a mark before a name
_ACTIONS: Final = {"+": "add", "-": "remove"}


class ReadType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A value that a function reads from text; its ValueError is told to the user."""

    name = "value"

    def __init__(self, read: Callable[[str], object], metavar: str) -> None:
        self._read = read
        self._metavar = metavar

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self._metavar


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _uids(text: str) -> list[list[int]]:
    return [_range(word) for word in _words(text)]


def _range(word: str) -> list[int]:
    lowest, dash, highest = word.partition("-")
    try:
        return [int(lowest), int(highest) if dash else int(lowest)]
    except ValueError:
        raise ValueError(f"'{word:.40}' is not a user id, nor a range as in 5000-5009") from None


def _os_changes(text: str) -> list[list[str]]:
    for word in _words(text):
        if word[0] not in _ACTIONS or len(word) == 1:
            raise ValueError(f"'{word:.40}' has no + or - before a name; write +name to add, -name to remove")
    return [[_ACTIONS[word[0]], word[1:]] for word in _words(text)]


def _flags(text: str) -> dict[str, bool]:
    return {name: _yes(value) for name, value in _pairs(text)}


def _yes(text: str) -> bool:
    if text.lower() not in _YES:
        raise ValueError(f"'{text:.40}' is neither 1 nor 0")
    return _YES[text.lower()]


def _intervals(text: str) -> dict[str, int]:
    return {name: round(_seconds(value) * _MICROSECONDS) for name, value in _pairs(text)}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    # this form refuses nan as well
    if not 0 <= seconds <= _MOST_SECONDS:
        raise ValueError(f"'{text:.40}' is not a number of seconds from 0 to {_MOST_SECONDS}")
    return seconds


def _sizes(text: str) -> dict[str, int]:
    return {name: read_mebibytes(value) if name.endswith("-size") else _count(value) for name, value in _pairs(text)}


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _COUNT_DIGITS):
        raise ValueError(f"'{text:.40}' is not a whole number")
    return int(text)


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = [word.partition("=") for word in _words(text)]
    for name, sign, _ in pairs:
        if not (name and sign):
            raise ValueError(f"'{name:.40}' has no value; write name=value, several with commas")
    return [(name, value) for name, _, value in pairs]


COUNT: Final = click.IntRange(min=1)
WORDS: Final = ReadType(_words, "NAME,...")
UIDS: Final = ReadType(_uids, "ID[-ID],...")
OS_CHANGES: Final = ReadType(_os_changes, "[+-]NAME,...")
FLAGS: Final = ReadType(_flags, "NAME=0|1,...")
INTERVALS: Final = ReadType(_intervals, "NAME=SECONDS,...")
SIZES: Final = ReadType(_sizes, "NAME=VALUE,...")

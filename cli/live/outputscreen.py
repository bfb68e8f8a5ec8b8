"""What commands print, shown as it comes: as it is, or on a terminal with its control sequences defused.

A terminal does what it is told: a log line, or a file that is printed, may rename the window, hide what follows,
or have it answer as if somebody had typed. So what comes from jobs is shown there in visible form, unless it is
wanted raw. Into a pipe or a file it goes as it is: what is read there is data.
"""

import sys
from collections.abc import Callable
from typing import TextIO, TypeVar

import click

from common.words.text import defused

F = TypeVar("F", bound=Callable[..., object])


def raw_option(function: F) -> F:
    """`--raw`, of verbs that show what commands print."""
    text = "Leave control sequences in the output, also on a terminal; else they are made visible there."
    return click.option("--raw", "is_raw", is_flag=True, help=text)(function)


class OutputScreen:
    """Standard output and error of this program, for what the commands of one job print.

    Args: is_raw: leave control sequences as they are, also on a terminal.
    """

    def __init__(self, *, is_raw: bool) -> None:
        self._is_raw = is_raw
        # a carriage return whose next character is not there yet
        self._held: dict[bool, str] = {False: "", True: ""}

    def write(self, text: str, *, is_error: bool = False) -> None:
        """Show a piece, at once."""
        stream: TextIO = sys.stderr if is_error else sys.stdout
        stream.write(text if self._is_raw or not stream.isatty() else self._visible(text, is_error))
        stream.flush()

    def _visible(self, text: str, is_error: bool) -> str:
        text = self._held[is_error] + text
        self._held[is_error] = "\r" if text.endswith("\r") else ""
        # one alone would have the line overwritten: the next one begins instead
        lines = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        return defused(lines)

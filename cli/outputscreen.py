"""Show the output of commands as it arrives: unchanged, or on a terminal with its control sequences made visible.

A terminal obeys control sequences: a log line, or a printed file, may rename the window, hide the text after it,
or make the terminal send text as if the user had typed it. Therefore output of jobs is made visible there, unless
the user wants it raw. Into a pipe or a file it goes unchanged: its reader takes it as data.
"""

import sys
from typing import TextIO

import click

from cli.options import F
from common.printable import defused


def raw_option(function: F) -> F:
    """The option `--raw` of verbs that show the output of commands."""
    text = "Leave control sequences in the output, also on a terminal; else they are made visible there."
    return click.option("--raw", "is_raw", is_flag=True, help=text)(function)


class OutputScreen:
    """Standard output and error of this program, for the output of one job's commands.

    Args: is_raw: leave control sequences as they are, also on a terminal.
    """

    def __init__(self, *, is_raw: bool) -> None:
        self._is_raw = is_raw
        # a carriage return at the end of the last piece, whose next character has not arrived
        self._held: dict[bool, str] = {False: "", True: ""}

    def write(self, text: str, *, is_error: bool = False) -> None:
        """Show a piece, at once."""
        stream: TextIO = sys.stderr if is_error else sys.stdout
        stream.write(text if self._is_raw or not stream.isatty() else self._visible(text, is_error))
        stream.flush()

    def _visible(self, text: str, is_error: bool) -> str:
        text = self._held[is_error] + text
        self._held[is_error] = "\r" if text.endswith("\r") else ""
        # a lone carriage return would overwrite the line: it begins a new line instead
        lines = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        return defused(lines)

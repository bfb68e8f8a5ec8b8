"""A program on a terminal of 80 columns, and what stands on it, from moment to moment."""

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import attrs
import pyte
from rich.style import Style
from rich.text import Text

WIDTH: Final = 80
# so high that nothing scrolls away
HEIGHT: Final = 240
_PLAIN: Final = "default"

# one line of the screen, with its colours
Line = Text


@attrs.frozen
class Screen:
    """What stands on the terminal at one moment, down to the last line that is not empty."""

    lines: Sequence[Line]

    def between(self, first: str, last: str | None = None) -> "Screen":
        """The lines from the one that begins with `first` to the empty one before `last`, or to the end."""
        texts = [line.plain for line in self.lines]
        begin = _find(texts, first, 0)
        end = len(texts) if last is None else _find(texts, last, begin)
        while not texts[end - 1].strip():
            end -= 1
        return Screen(self.lines[begin:end])


def _find(texts: Sequence[str], beginning: str, start: int) -> int:
    for place in range(start, len(texts)):
        if texts[place].startswith(beginning):
            return place
    raise LookupError(f"no line begins with '{beginning}' in:\n" + "\n".join(texts))


def play(command: Sequence[str], folder: Path, at_each: Callable[["Shown"], None]) -> tuple[Screen, int]:
    """Run a program on a terminal of its own; return what stands there at its end, and its exit code.

    Args: at_each: called whenever something new stands there.
    """
    shown = Shown()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            os.environ.pop(name, None)
        os.chdir(folder)
        os.execvp(command[0], list(command))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    for piece in _pieces(terminal):
        shown.feed(piece)
        at_each(shown)
    os.close(terminal)
    return shown.screen(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _pieces(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            # its other end was closed: how a pseudo terminal says end of file
            return
        if not piece:
            return
        yield piece


class Shown:
    """An emulated terminal."""

    def __init__(self) -> None:
        # pyte has no types
        self._screen: Final[Any] = pyte.Screen(WIDTH, HEIGHT)
        self._stream: Final[Any] = pyte.ByteStream(self._screen)

    def feed(self, piece: bytes) -> None:
        self._stream.feed(piece)

    def text(self) -> str:
        return "\n".join(self._screen.display)

    def screen(self) -> Screen:
        lines = [self._line(row) for row in range(HEIGHT)]
        while lines and not lines[-1].plain.strip():
            lines.pop()
        return Screen(lines)

    def _line(self, row: int) -> Line:
        cells = [self._screen.buffer[row][column] for column in range(WIDTH)]
        line = Text()
        for style, alike in groupby(cells, _style):
            line.append("".join(cell.data for cell in alike), style)
        line.rstrip()
        return line


def _style(cell: Any) -> Style:
    # pyte knows no dim letters; the demo shows commands so, and they are readable as they are
    return Style(color=None if cell.fg == _PLAIN else cell.fg, bold=cell.bold)

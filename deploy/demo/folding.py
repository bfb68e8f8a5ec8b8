"""Run a command on the demo's terminal, and fold what is longer than its lines between words.

A command sees a terminal of the same size, so that it shows what it would show to a person. One that keeps a live view
has the terminal itself; only its errors are folded.
"""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import textwrap
from collections.abc import Iterator, Sequence

_LIVE = frozenset({"watch", "--wait"})
_COLOUR = re.compile(r"\033\[[\d;]*m")
_INDENT = "  "


def run_folded(command: Sequence[str]) -> int:
    """Run it, and return its exit code."""
    reader, writer = pty.openpty()
    size = shutil.get_terminal_size()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, size.columns, 0, 0))
    output = None if _LIVE & set(command) else writer
    with subprocess.Popen(command, stdout=output, stderr=writer) as process:
        os.close(writer)
        for line in _lines(reader):
            print("\n".join(folded(line, size.columns)), flush=True)
    os.close(reader)
    return process.returncode


def folded(line: str, width: int) -> list[str]:
    """The line in pieces that fit, the later ones indented; a longer word stays whole."""
    if len(_COLOUR.sub("", line)) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())] + _INDENT
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _lines(reader: int) -> Iterator[str]:
    """The lines as they come, until all that write to the terminal have closed it."""
    rest = b""
    while more := _read(reader):
        *lines, rest = (rest + more).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r")
    if rest:
        yield rest.decode(errors="replace")


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 65536)
    except OSError:
        # all have closed it
        return b""

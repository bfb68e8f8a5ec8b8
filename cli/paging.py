"""Long tables on a terminal: through a pager, as git does; without one a last line says how long they were.

Into a pipe or a file everything goes at once. The pager is $GANTRY_PAGER, $PAGER, less or more, whichever is first;
empty or `cat` is none. less gets -FRX by its variable, unless that is set: it ends by itself where all fits the screen.

Source: cli.md 1.3.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from cli.context import NO_PAGER
from cli.screen import remark, say_styled, warn

if TYPE_CHECKING:
    import subprocess

PAGER_VARIABLE: Final = "GANTRY_PAGER"
_USUAL: Final = ("less", "more")
_OPTIONS_OF_LESS: Final = "FRX"
# of a shell: the program cannot be started, or is not there
_NOT_STARTED: Final = (126, 127)


def show_lines(lines: Iterable[str], fewer: str = "") -> None:
    """Print lines of results, in which foreign control sequences are visible; through a pager if they are too many.

    Args: fewer: what the user can do to get fewer lines.
    Cancellation: Ctrl-C is the pager's while it runs.
    """
    every = list(lines)
    is_long = sys.stdout.isatty() and len(every) >= shutil.get_terminal_size().lines
    pager = _pager() if is_long else None
    if pager is not None and _shown_by(pager, every):
        return
    for line in every:
        say_styled(line)
    if is_long and pager is None and fewer and not _is_forbidden():
        remark(f"… {len(every):,} lines; {fewer}")


def _is_forbidden() -> bool:
    return bool(click.get_current_context().meta.get(NO_PAGER))


def _pager() -> str | None:
    """The command of the pager; None: there is to be none, or there is none."""
    if _is_forbidden() or os.environ.get("TERM") == "dumb":
        return None
    named = next((os.environ[name] for name in (PAGER_VARIABLE, "PAGER") if name in os.environ), None)
    if named is None:
        named = next((name for name in _USUAL if shutil.which(name)), "")
    return None if named.strip() in ("", "cat") else named


def _shown_by(pager: str, lines: Sequence[str]) -> bool:
    """Show the lines by this command; False: it cannot be started."""
    # imported late: only a long table on a terminal needs it
    import subprocess

    sys.stdout.flush()
    environment = {"LESS": _OPTIONS_OF_LESS, **os.environ}
    with subprocess.Popen(
        pager, shell=True, stdin=subprocess.PIPE, env=environment, text=True, errors="replace"
    ) as started:
        try:
            assert started.stdin is not None
            started.stdin.writelines(f"{line}\n" for line in lines)
            started.stdin.close()
        except (BrokenPipeError, KeyboardInterrupt):
            # the user has seen enough
            pass
        code = _end_of(started)
    if code in _NOT_STARTED:
        warn(f"the pager '{pager}' cannot be started; ${PAGER_VARIABLE} names another one, --no-pager does without")
    return code not in _NOT_STARTED


def _end_of(started: "subprocess.Popen[str]") -> int:
    while True:
        try:
            return started.wait()
        except KeyboardInterrupt:
            # the terminal sends it to the pager, too, which knows what to do
            continue

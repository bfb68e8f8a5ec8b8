"""What a demo shows: headings, commands with their output, and claims with whether they hold."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from folding import folded, run_folded  # found in the folder of the demos

_BIN = Path(sys.executable).parent
_BOLD, DIM, _GREEN, _RED, PLAIN = "\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m"
if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
    _BOLD = DIM = _GREEN = _RED = PLAIN = ""
# letters of a word, and of a line, above which they are shown shortened
_LETTERS = 32
_WIDTH = 80


def say(text: str) -> None:
    heading = "\n".join(folded(f"== {text}", _WIDTH))
    print(f"\n{_BOLD}{heading}{PLAIN}", flush=True)


def show(*command: str, check: bool = True, where: str = "") -> None:
    """Show a command, run it, and show its output. Args: where: the machine that it runs on."""
    show_command(*command, where=where)
    code = run_folded(_argv(command)) if sys.stdout.isatty() else subprocess.run(_argv(command), check=False).returncode
    if check and code:
        raise subprocess.CalledProcessError(code, command)


def show_command(*command: str, where: str = "") -> None:
    """Show a command as it is typed, on one line; of long paths only the last part."""
    line = f"{where}$ {' '.join(map(_shortened, command))}"
    print(f"{DIM}{line if len(line) <= _WIDTH else f'{line[: _WIDTH - 3]}...'}{PLAIN}", flush=True)


def _shortened(word: str) -> str:
    word = word.rpartition("/")[2] if word.startswith("/") else word
    return shlex.quote(word) if len(word) <= _LETTERS else f"{word[:_LETTERS]}..."


def quietly(*command: str, text: str | None = None) -> str:
    """Run a command and return its output. Args: text: its standard input."""
    return subprocess.run(_argv(command), input=text, capture_output=True, text=True, check=False).stdout


def show_claims(claims: Iterable[tuple[bool, str]]) -> bool:
    """Show each claim with whether it holds; return whether all do."""
    shown = list(claims)
    for holds, claim in shown:
        print(f"  {_GREEN}yes{PLAIN}  {claim}" if holds else f"  {_RED}NO{PLAIN}   {claim}")
    return all(holds for holds, _ in shown)


def _argv(command: tuple[str, ...]) -> list[str]:
    return [str(_BIN / command[0]), *command[1:]]

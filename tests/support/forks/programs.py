"""Our commands, forked from a process that has loaded the code of all verbs."""

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.forks.forked import Forked, Forker

_CHECKOUT: Final = Path(__file__).resolve().parents[3]
# time after which a command tells why its job waits
PATIENT_SILENCE_S: Final = 5.0


def start_program(
    module: str, command: Sequence[str], env: Mapping[str, str], streams: Mapping[int, int], cwd: Path | None = None
) -> Forked:
    """Run the `main` of a module of `cli` in a process of its own.

    Args:
        command: what would start it otherwise; its last words are those of the program.
        streams: its standard streams' numbers, with ours.
    """
    arguments = command[command.index("-c") :]
    words = [arguments[0], *arguments[2:]]
    return _forker().start(module, words, command, env, streams, cwd=cwd)


@cache
def _forker() -> Forker:
    return Forker(__name__, "-W", "error")


def load() -> None:
    for path in sorted(Path(_CHECKOUT, "cli").rglob("*.py")):
        if path.name not in ("__init__.py", "__main__.py"):
            importlib.import_module(".".join(path.relative_to(_CHECKOUT).with_suffix("").parts))
    watching = importlib.import_module("cli.live.watching")
    # a machine that stands still for a moment is no reason to wait that a user is told
    watching._SILENCE_S = PATIENT_SILENCE_S  # type: ignore[attr-defined]

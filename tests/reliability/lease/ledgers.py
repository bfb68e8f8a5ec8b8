"""Commands that tell of themselves in one ledger: when they begin and end, where, and whether they have company.

Each line is appended by one call, so the order of the lines is that of the events. What a job's lock guards is a file,
which the command locks in the kernel, too, without waiting: if that fails, two commands had the same lock at once.
"""

import random
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.reliability.lease.history import Line, read_lines

_LOCKS: Final = 8
_SCRIPT: Final = """
exec 9>>"$HELD"
flock --nonblock 9 || echo "clash $TAG" >> "$LEDGER"
echo "enter $TAG at $(date +%s.%N)" >> "$LEDGER"
sleep $PAUSE
echo "leave $TAG" >> "$LEDGER"
exit $CODE
"""


def command_of(folder: Path, token: str, chance: random.Random, nodes: Sequence[str]) -> dict[str, object]:
    """An opcode whose command has a lock for itself, on the master or on a node."""
    lock = f"x{chance.randrange(_LOCKS)}"
    # empty: by a process of the master itself
    node = chance.choice(("", "", *nodes))
    return command(folder, token, lock, node, chance.choice((0.0, 0.0, 0.1, 0.5, 2.0)), chance.choice((0, 0, 0, 3)))


def command(folder: Path, token: str, lock: str, node: str, pause_s: float, exit_code: int = 0) -> dict[str, object]:
    """An opcode whose command stays under its lock for so long. Args: node: empty: on the master, by a job process."""
    variables = {
        "TAG": f"{token} {lock} {node or 'master'}",
        "LEDGER": str(folder / "ledger"),
        "HELD": str(folder / f"held-{lock}"),
        "PAUSE": f"{pause_s:g}",
        "CODE": str(exit_code),
    }
    script = "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items()) + _SCRIPT
    locks = {f"instance/{lock}": "exclusive"}
    place = {"node": node} if node else {}
    # the token lies where the judge finds it again
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", script, token], "locks": locks, **place}


def token_of(opcode: object) -> str:
    """The token of a job's opcode. Raises: AssertionError: it is another one."""
    assert isinstance(opcode, dict), opcode
    return str(opcode["argv"][3])


def ledger_lines(folder: Path) -> list[Line]:
    path = folder / "ledger"
    return read_lines(path.read_text()) if path.exists() else []

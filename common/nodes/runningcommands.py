"""The commands of jobs that run on this node, for people who look at the node or stop its daemons.

Source: DESIGN section 13; daemons/noded/core/commandphases.py says what the files mean.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson

from common.system.livelock import Life, probe

_LOCK: Final = ".live"
_END: Final = ".end"


def running_commands(folder: Path) -> Sequence[str]:
    """The keys of those that run, or have left processes that keep locks, sorted; none if the node has had no commands.

    Args: folder: of the commands of a node.
    Raises: OSError.
    Cost: a few calls of the kernel for each command that has not been forgotten.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    keys = sorted(name.removesuffix(_LOCK) for name in names if name.endswith(_LOCK))
    return [key for key in keys if probe(str(folder / f"{key}{_LOCK}")) is not Life.DEAD and not _is_over(folder, key)]


def _is_over(folder: Path, key: str) -> bool:
    """Whether only the runner is left, which is about to end."""
    try:
        end: object = orjson.loads((folder / f"{key}{_END}").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(end, dict) and end.get("is_over") is True


def going_on_words(folder: Path) -> str | None:
    """What goes on when this node's daemons stop; None: nothing, or it cannot be looked at."""
    try:
        count = len(running_commands(folder))
    except OSError:
        # of another user
        return None
    return (
        f"{count} command{'s' if count > 1 else ''} of jobs go{'es' if count == 1 else ''} on here" if count else None
    )

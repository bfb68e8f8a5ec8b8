"""luxid's message with the new priority of a job that has a process.

The process takes it when it is signalled. What a process that ends leaves, because it was told too late, luxid gives to
the job itself.

Source: luxid.md 2.5.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from common.queue.jobs import PRIORITY_HIGHEST, PRIORITY_LOWEST

_TAKEN: Final = ".taken"


def write_priority(message: Path, priority: int) -> None:
    """Write the message in one step and readable only for its owner: the process may read it at any signal.

    Raises: OSError.
    """
    temp = message.with_suffix(".tmp")
    temp.unlink(missing_ok=True)
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, str(priority).encode())
    finally:
        os.close(fd)
    temp.replace(message)


@contextlib.contextmanager
def taken_priority(message: Path) -> Iterator[int | None]:
    """Take the message, so that nobody finds it again; None: there is none. A later one stays.

    Until the end of this context `left_priority` finds it, should this process die.

    Raises: OSError; ValueError: it is not a number.
    """
    # luxid may replace the message at any instant: one that was not read must not be removed
    taken = _taken(message)
    try:
        message.replace(taken)
    except FileNotFoundError:
        yield None
        return
    try:
        yield _read(taken)
    finally:
        taken.unlink(missing_ok=True)


def left_priority(message: Path) -> int | None:
    """Return what a process that is dead has not applied; None: there is nothing.

    Raises: OSError; ValueError: it is not a number.
    """
    for path in (message, _taken(message)):
        with contextlib.suppress(FileNotFoundError):
            return _read(path)
    return None


def remove_priority(message: Path) -> None:
    """Remove the message, of which no process needs to know any more. Raises: OSError."""
    for path in (message, _taken(message)):
        path.unlink(missing_ok=True)


def _read(path: Path) -> int:
    return max(PRIORITY_HIGHEST, min(int(path.read_text()), PRIORITY_LOWEST))


def _taken(message: Path) -> Path:
    return message.with_name(message.name + _TAKEN)

"""luxid's message with a job's new priority, taken by the job's process.

Source: luxid.md 2.5.
"""

from pathlib import Path
from typing import Final

from common.queue.jobs import PRIORITY_HIGHEST, PRIORITY_LOWEST

_TAKEN: Final = ".taken"


def take_priority(message: Path) -> int | None:
    """Take the message, so that nobody finds it again; None: there is none. A later one stays.

    Raises: OSError; ValueError: it is not a number.
    """
    # luxid may replace the message at any instant: one that was not read must not be removed
    taken = message.with_name(message.name + _TAKEN)
    try:
        message.replace(taken)
    except FileNotFoundError:
        return None
    try:
        priority = int(taken.read_text())
    finally:
        taken.unlink()
    return max(PRIORITY_HIGHEST, min(priority, PRIORITY_LOWEST))

"""Whether the master candidates have the queue of the master: calls of ours.

Source: DESIGN section 12.
"""

from typing import Final

import attrs

from common.shapes import Lenient
from protocol.messages import Request

# a name of ours for QueryConfigValues: what was found when the queue was compared last, null if it is not copied
QUEUE_VERDICTS: Final = "queue_verdicts"


@attrs.frozen
class QueueVerdict(Lenient):
    """One candidate; a list of these is the value of `QUEUE_VERDICTS`."""

    node: str
    # seconds since 1970 of the comparison; null: it is not over, or failed
    at: float | None = None
    # number of files that differed, and the names of the first ones; they were sent since, if that was possible
    differ: int = 0
    files: tuple[str, ...] = ()
    # why the node could not be asked; null: it was
    failure: str | None = None
    # whether the node takes files of ours beside the jobs: keys of submissions, histories of waits
    takes_ours: bool = True
    # number of files that it has set aside, because the master has lost them, and the first ones as they were called
    lost: int = 0
    lost_files: tuple[str, ...] = ()


@attrs.frozen
class CheckQueueCopies(Request[tuple[QueueVerdict, ...] | None]):
    """Compare the queue with all candidates now; null: it is not copied.

    Cost: each file is read here and there.
    """

    METHOD = "CheckQueueCopies"

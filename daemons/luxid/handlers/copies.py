"""The copies of the queue on the master candidates.

Source: DESIGN section 12.
"""

from typing import Protocol

from protocol.luxi.daemon.copies import CheckQueueCopies, QueueVerdict
from protocol.peer import Peer


class Checking(Protocol):
    """The way that copies take."""

    async def check(self) -> tuple[QueueVerdict, ...]: ...


class CopyChecks:
    """Args: copies: None: there are none."""

    def __init__(self, copies: Checking | None) -> None:
        self._copies = copies

    async def check_queue_copies(self, call: CheckQueueCopies, peer: Peer) -> tuple[QueueVerdict, ...] | None:
        """Compare the queue with all candidates."""
        return None if self._copies is None else await self._copies.check()

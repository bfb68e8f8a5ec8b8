"""The turn to purge a node of Ganeti's: only one at a time may lack most of the queue.

Ganeti's calls cannot remove a single job, so a node that has one too many loses all, and gets everything anew. Removed
jobs concern all candidates alike; without turns none of them would have the queue for a while.
"""

from collections.abc import Callable


class PurgeTurn:
    """Belongs to one sender, from its purge until its node has everything, or is away."""

    def __init__(self) -> None:
        self._holder: object = None
        # those that wait, with functions that wake them
        self._waiting: dict[object, Callable[[], None]] = {}

    def take(self, sender: object, wake: Callable[[], None]) -> bool:
        """Whether the turn is this sender's now; if not, it is woken when the turn is free."""
        if self._holder is None:
            self._holder = sender
        if self._holder is sender:
            return True
        self._waiting[sender] = wake
        return False

    def give_back(self, sender: object) -> None:
        """Pass it on, if this sender has it."""
        if self._holder is not sender:
            return
        self._holder = None
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()

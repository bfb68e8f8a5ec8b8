"""When a node is sent what it may wait for: fresh changes that nobody waits for, and histories of waits.

Theory. A short job is written four times within some milliseconds. Where nobody waits for its copies, they are gathered
for `GATHER_S`: the job is sent once, as it is then, which costs this node and the other one a call and a write for many
jobs instead of four for each. A change that some node lacks is held elsewhere meanwhile.

Histories change with nearly every job, and they are large: those of changed jobs are compared together, `LATER_S` after
the first of them changed.
"""

from collections.abc import Iterable
from typing import Final

import trio

from daemons.luxid.core.copies.backlog import Backlog, StateName

# seconds in which changes are gathered, where nobody waits for their copies
GATHER_S: Final = 0.25
# files of a batch; so many are not gathered any longer
FILES_AT_ONCE: Final = 64
# seconds from the change of a history to its copy
LATER_S: Final = 5.0


class Gathering:
    """Fresh changes. Args: for_s: seconds; 0: somebody waits for each of them."""

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        # by trio's clock
        self.until = 0.0

    def begin(self) -> None:
        """The node lacks something since now, or was just sent the last batch."""
        self.until = trio.current_time() + self._for_s

    def holds(self, backlog: Backlog) -> bool:
        """Whether all that the node lacks may wait for more."""
        return backlog.is_compared and len(backlog) < FILES_AT_ONCE and trio.current_time() < self.until


class LateFiles:
    """Files that may have changed, and whose copies may be late."""

    def __init__(self) -> None:
        self._names: set[StateName] = set()
        # when they are compared, by trio's clock
        self.due_at = float("inf")

    @property
    def is_due(self) -> bool:
        return self.due_at <= trio.current_time()

    def hasten(self) -> bool:
        """Have them compared now; return whether there are any."""
        if self._names:
            self.due_at = trio.current_time()
        return bool(self._names)

    def add(self, names: Iterable[StateName]) -> bool:
        """Return whether there were none."""
        is_first = not self._names
        if is_first:
            self.due_at = trio.current_time() + LATER_S
        self._names.update(names)
        return is_first

    def take(self) -> frozenset[StateName]:
        """Return all of them; none is left."""
        names, self._names, self.due_at = frozenset(self._names), set(), float("inf")
        return names

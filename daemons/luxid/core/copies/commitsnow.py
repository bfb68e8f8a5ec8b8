"""How commits of the queue are doing at this moment, for users.

Source: DESIGN section 14.
"""

import attrs

from common.metrics.histogram import Distribution


@attrs.frozen
class CommitsNow:
    # entries in etcd: files that some candidate may lack
    dirty: int = 0
    # commits that are under way or wait
    waiting: int = 0
    # seconds since etcd has not replied to one of them; 0: it has
    silent_s: float = 0.0
    # whether etcd refuses changes for want of space
    is_full: bool = False
    # of transactions, in seconds
    durations: Distribution = attrs.field(factory=Distribution)

    @property
    def trouble(self) -> str:
        """Why changes do not count at the moment; empty: they do."""
        if self.is_full:
            return "etcd is full, so that nothing can be committed; 'gantry cluster' tells its state"
        if self.waiting and self.silent_s >= 1.0:
            return f"etcd has not replied for {self.silent_s:.0f} s; what changes counts when it is committed there"
        return ""

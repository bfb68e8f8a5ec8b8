"""What luxid still commits when etcd fills up: the rest is kept for the starts and ends of jobs, and for deletions.

Theory. An etcd that is full lets no job end. So new jobs, and what else can wait, are refused before: those that are
there can end then, and what has reached all candidates is forgotten, which makes room again. Before it comes to that,
masses are slowed down, so that the candidates can keep up.

Source: lease.md 5.
"""

from collections.abc import Callable
from typing import Final

import attrs

from common.errors import Unavailable
from common.lease.records import Fullness
from common.metrics import Distribution, Metrics, gauge, histogram

# jobs that one call may change without being slowed down
FEW: Final = 20
_PAUSE_S: Final = 0.01
_LONGEST_S: Final = 10.0


def _fine() -> Fullness:
    return Fullness.FINE


@attrs.frozen
class EtcdRoom:
    """Args: level: returns how full etcd is at this moment."""

    level: Callable[[], Fullness] = _fine

    def check(self) -> None:
        """Raises: Unavailable: nothing may be committed now that can wait."""
        level = self.level()
        if level >= Fullness.RESERVED:
            how = "full" if level is Fullness.FULL else "nearly full"
            raise Unavailable(
                f"etcd is {how}: only jobs that are queued already are started and ended; "
                "see 'gantry cluster', and try again when there is room"
            )

    def pause_s(self, count: int) -> float:
        """Seconds to wait before that many jobs are changed at once; 0: there is room."""
        if count <= FEW or self.level() < Fullness.SLOW:
            return 0.0
        return min(count * _PAUSE_S, _LONGEST_S)


# on one machine, or when others decide
BOUNDLESS: Final = EtcdRoom()


# How commits of the queue are doing at this moment, for users.
#
# Source: DESIGN section 14.


@attrs.frozen
class CommitsNow(Metrics):
    # entries
    dirty: int = gauge("etcd_entries", "Files in etcd that some candidate may lack.")
    # commits that are under way, too
    waiting: int = gauge("commits_waiting", "Changes of the queue that wait for etcd.")
    # 0: it has replied
    silent_s: float = gauge("etcd_silent_seconds", "Time since etcd has not replied to a change of the queue.")
    is_full: bool = gauge("etcd_full", "1 if etcd takes no changes for want of space.", begin=bool)
    durations: Distribution = histogram("commit_seconds", "One transaction in etcd with changes of the queue.")

    @property
    def trouble(self) -> str:
        """Why changes do not count at the moment; empty: they do."""
        if self.is_full:
            return "etcd is full, so that nothing can be committed; 'gantry cluster' tells its state"
        if self.waiting and self.silent_s >= 1.0:
            return f"etcd has not replied for {self.silent_s:.0f} s; what changes counts when it is committed there"
        return ""

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
from common.lease.fullness import Fullness

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

"""How much a queued job would get in the way of the running ones: its lock weight, and how that fades with age.

Theory. On each level a declaration amounts to one *taking*, or two: none, or shared or exclusive, each of named,
unknown or all locks. The table says what a pending taking costs beside a running one; on a level the dearest
pair counts. The sum over the levels and a base is the static weight. A job that takes the BGL itself, and each job
that needs the BGL at all while a running one has it alone, costs the base and BGL_PENALTY instead.

The weight fades: `static * max(0, 1 - ticks/K)`, where ticks is the job's age in whole ticks. Ticks are
counted on the clock's own line (tick n is from n * tick_s to (n + 1) * tick_s), for all jobs alike: so of two jobs
the one received earlier is at each moment at least as old in ticks as the other, and an order by age never turns
around. After K ticks a job weighs nothing, and whatever comes later weighs something or is younger:
so no job waits for ever behind lighter ones of the same priority.

Source: predictive-queue design; luxid.md 5.11; DESIGN section 6.
"""

import enum
import math
from collections.abc import Iterable
from functools import cache
from typing import Final

import attrs

from common.lockdecl import LevelDeclaration, Scope
from common.locks import LockLevel, LockMode
from common.queue.jobs import Timestamp


class Taking(enum.IntEnum):
    """What a job takes on a level; the number is its row or column of the table."""

    NONE = 0
    SHARED_NAMED = 1
    SHARED_UNKNOWN = 2
    SHARED_ALL = 3
    EXCLUSIVE_NAMED = 4
    EXCLUSIVE_UNKNOWN = 5
    EXCLUSIVE_ALL = 6

    # the one of Enum is slow, and takings are parts of keys
    __hash__ = int.__hash__


# on these levels locks have names, and the weights are summed up
LEVELS: Final = (LockLevel.NODEGROUP, LockLevel.INSTANCE, LockLevel.NODE, LockLevel.NODE_RES, LockLevel.NETWORK)

# rows: pending; columns: running; both named: without a common name
PAIR_WEIGHTS: Final = (
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (0.3, 0.0, 0.0, 0.0, 0.3, 1.5, 3.0),
    (0.3, 0.3, 0.3, 0.3, 1.5, 1.5, 3.0),
    (0.3, 0.3, 0.3, 0.3, 3.0, 3.0, 3.0),
    (0.5, 0.5, 1.5, 3.0, 0.5, 1.5, 3.0),
    (0.5, 1.5, 1.5, 3.0, 1.5, 1.5, 3.0),
    (0.5, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0),
)
# weight of a name in common if one of the two is exclusive: the greatest of all
CLASH: Final = 3.0
BGL_PENALTY: Final = 15.0

_TAKINGS: Final = {
    (LockMode.SHARED, Scope.NAMED): Taking.SHARED_NAMED,
    (LockMode.SHARED, Scope.UNKNOWN): Taking.SHARED_UNKNOWN,
    (LockMode.SHARED, Scope.ALL): Taking.SHARED_ALL,
    (LockMode.EXCLUSIVE, Scope.NAMED): Taking.EXCLUSIVE_NAMED,
    (LockMode.EXCLUSIVE, Scope.UNKNOWN): Taking.EXCLUSIVE_UNKNOWN,
    (LockMode.EXCLUSIVE, Scope.ALL): Taking.EXCLUSIVE_ALL,
}


@attrs.frozen
class WeightRules:
    """The settings."""

    # False: all weights are 0, so that jobs go by priority and age alone
    is_enabled: bool = True
    base: float = 1.0
    # seconds
    tick_s: float = 30.0
    # ticks after which a job weighs nothing (K)
    ticks: int = 30

    def tick(self, at_s: float) -> int:
        """The number of the tick of a moment, in seconds since the epoch."""
        return math.floor(at_s / self.tick_s)

    def received_tick(self, received_at: Timestamp | None) -> int:
        """The tick in which a job was received; 0 if that is not known."""
        return self.tick(received_at[0]) if received_at else 0

    def factor(self, received_tick: int, now_tick: int) -> float:
        """1 for a new job, 0 for one of K ticks and more."""
        return max(0.0, 1.0 - max(0, now_tick - received_tick) / self.ticks)

    def total(self, level_weights: Iterable[float]) -> float:
        """The static weight. The order of the levels makes no difference, not even in the last bit."""
        return math.fsum((self.base, *level_weights)) if self.is_enabled else 0.0

    def big_lock(self) -> float:
        """The static weight of a job that takes the BGL exclusively, or that needs it while another one does."""
        return self.total((BGL_PENALTY,))


def takings_of(entries: Iterable[LevelDeclaration]) -> tuple[Taking, ...]:
    """What a level's declarations amount to; never empty."""
    return _takings(tuple([(entry.mode, entry.scope) for entry in entries]))


# of some kinds of declarations there are few combinations, and all opcodes of a queue have one on each level
@cache
def _takings(kinds: tuple[tuple[LockMode, Scope], ...]) -> tuple[Taking, ...]:
    return tuple(sorted({_TAKINGS[kind] for kind in kinds})) or (Taking.NONE,)


def level_weight(pending: Iterable[Taking], running: Iterable[Taking]) -> float:
    """The dearest pair, names aside; 0 when no job runs."""
    against = tuple(running)
    return max((PAIR_WEIGHTS[mine][other] for mine in pending for other in against), default=0.0)

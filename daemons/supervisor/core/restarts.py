"""When a daemon is started again, with which pause, and when its start is given up.

Theory. Each daemon is in one phase, and a table says which event leads from it to which other. A user waits for the
first start of a daemon: if it fails, the supervisor gives up and says why. But a daemon that the others can do without
is then tried again, as later. Later nobody is there to ask, so a daemon is started again for ever: at once the first
time, then after pauses that double up to a bound, so that one that can never start costs next to nothing. A daemon that
was well for a while is started again at once. A start that takes too long has failed: the shell kills that process, and
reports the failure. A daemon that says that this node is not the master is left alone, and so are all others that
belong to the master, until somebody says that the node's place may have changed.

Instants are seconds of a clock that never goes back.
"""

import enum
from collections.abc import Mapping
from typing import Final

import attrs

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
# a daemon that was ready for longer than this is well: its next restart is at once
WELL_AFTER_S: Final = 60.0
# a queue of 100,000 jobs is read in a few seconds; this is for disks that have a bad day
READY_TIMEOUT_S: Final = 120.0


class DaemonPhase(enum.Enum):
    # never started
    ABSENT = "absent"
    # started for the first time, not ready yet
    FIRST_START = "first start"
    READY = "ready"
    # ended, to be started again when the pause is over
    PAUSING = "pausing"
    RESTARTING = "restarting"
    # the first start failed
    GIVEN_UP = "given up"
    # this node is not the master
    LEFT = "left"


class DaemonEvent(enum.Enum):
    LAUNCHED = "launched"
    READY = "says that it is ready"
    # after it was ready
    ENDED = "ends by itself"
    # it could not be launched, ended before it was ready, or was not ready in time
    FAILED = "does not start"
    # it, or another daemon of the master, says that another node is the master
    NOT_MASTER = "finds another master"


TRANSITIONS: Final[Mapping[DaemonPhase, Mapping[DaemonEvent, DaemonPhase]]] = {
    DaemonPhase.ABSENT: {
        DaemonEvent.LAUNCHED: DaemonPhase.FIRST_START,
        DaemonEvent.FAILED: DaemonPhase.GIVEN_UP,
        DaemonEvent.NOT_MASTER: DaemonPhase.LEFT,
    },
    DaemonPhase.FIRST_START: {
        DaemonEvent.READY: DaemonPhase.READY,
        DaemonEvent.FAILED: DaemonPhase.GIVEN_UP,
        DaemonEvent.NOT_MASTER: DaemonPhase.LEFT,
    },
    DaemonPhase.READY: {DaemonEvent.ENDED: DaemonPhase.PAUSING, DaemonEvent.NOT_MASTER: DaemonPhase.LEFT},
    DaemonPhase.PAUSING: {
        DaemonEvent.LAUNCHED: DaemonPhase.RESTARTING,
        DaemonEvent.FAILED: DaemonPhase.PAUSING,
        DaemonEvent.NOT_MASTER: DaemonPhase.LEFT,
    },
    DaemonPhase.RESTARTING: {
        DaemonEvent.READY: DaemonPhase.READY,
        DaemonEvent.FAILED: DaemonPhase.PAUSING,
        DaemonEvent.NOT_MASTER: DaemonPhase.LEFT,
    },
    DaemonPhase.GIVEN_UP: {},
    DaemonPhase.LEFT: {DaemonEvent.NOT_MASTER: DaemonPhase.LEFT},
}
_STARTING: Final = (DaemonPhase.FIRST_START, DaemonPhase.RESTARTING)


@attrs.frozen
class KeptDaemon:
    """What is known of one daemon that is to be kept running."""

    phase: DaemonPhase = DaemonPhase.ABSENT
    # when the phase began
    since: float = 0.0
    # length of the pause that is under way, or of the last one
    pause_s: float = 0.0
    # length of the next pause, if the daemon does not get well before
    next_pause_s: float = 0.0
    # whether the others are of no use without it
    is_needed: bool = True

    @property
    def is_starting(self) -> bool:
        return self.phase in _STARTING

    @property
    def due_at(self) -> float | None:
        """When this phase has lasted too long: a pause is over, a start has failed; None: it may last for ever."""
        if self.phase is DaemonPhase.PAUSING:
            return self.since + self.pause_s
        return self.since + READY_TIMEOUT_S if self.is_starting else None

    def is_due(self, now: float) -> bool:
        return self.due_at is not None and self.due_at <= now


def step(keeping: KeptDaemon, event: DaemonEvent, now: float) -> KeptDaemon:
    """What is known after an event.

    Raises: KeyError: the event cannot happen in this phase.
    """
    phase = TRANSITIONS[keeping.phase][event]
    if phase is DaemonPhase.GIVEN_UP and not keeping.is_needed:
        phase = DaemonPhase.PAUSING
    if phase is not DaemonPhase.PAUSING:
        return attrs.evolve(keeping, phase=phase, since=now)
    if event is DaemonEvent.FAILED:
        # a start that failed is never repeated at once
        pause_s = keeping.next_pause_s or FIRST_PAUSE_S
    else:
        pause_s = 0.0 if now - keeping.since > WELL_AFTER_S else keeping.next_pause_s
    longer_s = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
    return attrs.evolve(keeping, phase=phase, since=now, pause_s=pause_s, next_pause_s=longer_s)

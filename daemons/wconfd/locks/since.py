"""Since when locks are held and requests wait: kept in memory, for explanations of waits."""

import time
from collections.abc import Callable

from common.locks import Lock, Owner
from daemons.wconfd.core.locks.pending import LockState
from daemons.wconfd.core.locks.waiting import Change


class Since:
    """Instants in seconds since the epoch; None for holds and waits older than this object."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.started = clock()
        # no empty rows
        self._held: dict[Owner, dict[Lock, float]] = {}
        self._waiting: dict[Owner, float] = {}

    def held(self, owner: Owner, lock: Lock) -> float | None:
        return self._held.get(owner, {}).get(lock)

    def waiting(self, owner: Owner) -> float | None:
        return self._waiting.get(owner)

    def longest_wait_s(self) -> float:
        """Seconds for which the oldest pending request has waited; 0.0: there is none. Cost: linear in those."""
        return max(0.0, self._clock() - min(self._waiting.values())) if self._waiting else 0.0

    def note(self, owner: Owner, change: Change, state: LockState) -> None:
        """Record an owner's change, which is durable in `state`. Cost: O(locks changed)."""
        now = self._clock()
        for move in change.moves:
            row = self._held.setdefault(move.owner, {})
            for lock, mode in move.modes.items():
                if mode is None:
                    row.pop(lock, None)
                elif state.table.mode_of(move.owner, lock):
                    row.setdefault(lock, now)
            if not row:
                del self._held[move.owner]
        for each in (owner, *change.granted):
            if state.pending_of(each) is None:
                self._waiting.pop(each, None)
        if change.is_queued:
            self._waiting.setdefault(owner, now)

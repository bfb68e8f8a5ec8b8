"""The gates before ready jobs: which are shut, because of a filter or a limit that is full.

Source: DESIGN section 6, "Selection".
"""

from collections.abc import Iterable

from daemons.luxid.core.choice.groups import Gate, GateKey
from daemons.luxid.core.choice.ratelimit import Limit, Places


class Gates:
    """All gates behind which there are jobs."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._gates: dict[GateKey, Gate] = {}
        # limit -> gates behind which it is
        self._limited: dict[Limit, dict[Gate, None]] = {}
        # pools looked at so far
        self.touched = 0

    def __len__(self) -> int:
        return len(self._gates)

    def find(self, key: GateKey) -> Gate:
        """The gate of this key; made if there is none."""
        gate = self._gates.get(key)
        if gate is None:
            bars = key.is_paused + sum(self._places.is_full(limit) for limit in key.limits)
            gate = self._gates[key] = Gate(key, bars)
            for limit in key.limits:
                self._limited.setdefault(limit, {})[gate] = None
        return gate

    def drop(self, gate: Gate) -> None:
        """There are no jobs behind the gate any more."""
        del self._gates[gate.key]
        for limit in gate.key.limits:
            del self._limited[limit][gate]
            if not self._limited[limit]:
                del self._limited[limit]

    def shut(self, limits: Iterable[Limit]) -> None:
        """These limits are full now. Cost: linear in the pools behind them, not in the jobs."""
        self._bar(limits, 1)

    def open(self, limits: Iterable[Limit]) -> None:
        """These limits have room now. Cost: as `shut`."""
        self._bar(limits, -1)

    def _bar(self, limits: Iterable[Limit], step: int) -> None:
        for limit in limits:
            for gate in self._limited.get(limit, ()):
                before, gate.bars = gate.bars, gate.bars + step
                # between one bar and several nothing shows
                for pool in gate.pools.values() if not (before and gate.bars) else ():
                    self.touched += 1
                    pool.refresh()

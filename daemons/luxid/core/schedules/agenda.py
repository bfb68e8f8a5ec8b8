"""When each schedule is to be looked at next."""

import heapq


class Agenda:
    """Instants by schedule. Cost: O(log n) for each change; what is replaced stays until its time comes."""

    def __init__(self) -> None:
        # by uuid; seconds since the epoch
        self._instants: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._instants)

    def put(self, uuid: str, at: float | None) -> None:
        """Look at this schedule then, and not before; None: not at all."""
        if at is None:
            self._instants.pop(uuid, None)
        elif self._instants.get(uuid) != at:
            self._instants[uuid] = at
            heapq.heappush(self._heap, (at, uuid))

    def take(self, now: float, most: int) -> list[str]:
        """Remove and return schedules whose time has come, the earliest first."""
        taken: list[str] = []
        while len(taken) < most and (at := self.next_at) is not None and at <= now:
            _, uuid = heapq.heappop(self._heap)
            del self._instants[uuid]
            taken.append(uuid)
        return taken

    @property
    def next_at(self) -> float | None:
        """The first instant; None: there is none."""
        while self._heap and self._instants.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

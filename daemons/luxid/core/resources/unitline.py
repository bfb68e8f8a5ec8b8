"""The groups that wait for units of one resource, and which of them has waited longest.

Source: DESIGN section 16; `choice.jobclasses.LazyHeap` is of the same kind.
"""

from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from daemons.luxid.core.resources.wants import Group, Place

_SLACK: Final = 16


class Line:
    """The groups that want the resource, and a heap of their places with lazy deletion."""

    def __init__(self) -> None:
        # in the order in which they came
        self.groups: dict[Group, None] = {}
        # with a number: a place may be there twice, and groups cannot be compared
        self._places: list[tuple[Place, int, Group]] = []
        self._numbers = count()

    def moved(self, group: Group) -> None:
        """Take note that another job of the group, or none, has waited longest. Cost: O(log n), amortised."""
        if group.waiting is None:
            return
        heappush(self._places, (group.waiting, next(self._numbers), group))
        if len(self._places) > 2 * len(self.groups) + _SLACK:
            waiting = [(each.waiting, each) for each in self.groups if each.waiting is not None]
            self._places = [(place, next(self._numbers), each) for place, each in waiting]
            heapify(self._places)

    def first(self) -> tuple[Place, Group] | None:
        """The job that has waited longest, and its group; None: nobody waits."""
        while self._places:
            place, _, group = self._places[0]
            if group in self.groups and group.waiting == place:
                return place, group
            heappop(self._places)
        return None

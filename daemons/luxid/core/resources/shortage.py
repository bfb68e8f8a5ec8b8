"""Which wants of one resource are short.

Theory. Whether a want is short depends on its count and priority alone: it is if its count is greater than the *bound*
of its priority, which is what is free, less what is kept for an overdue job that this priority does not outrank. So the
wants of a priority are sorted by count, and a change of the bound touches those between the old one and the new one.
What is kept for a job is kept from its own want, too, which others may have: `Units` excepts its group.

Source: DESIGN section 16.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from daemons.luxid.core.resources.wants import Want


class Shortage:
    """The wants of the ready jobs for one resource."""

    def __init__(self, resource: str, free: int) -> None:
        self._resource = resource
        self._free = free
        # want for which units are kept
        self._keeper: Want | None = None
        # want -> groups that have it
        self._groups: dict[Want, int] = {}
        self._short: set[Want] = set()
        # priority -> counts of its wants, ascending
        self._counts: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def enter(self, want: Want) -> bool:
        """One more group has this want; return whether it is short."""
        if want not in self._groups:
            insort(self._counts.setdefault(want.priority, []), want.count)
            if self.is_short(want):
                self._short.add(want)
        self._groups[want] = self._groups.get(want, 0) + 1
        return want in self._short

    def leave(self, want: Want) -> None:
        """One group less has this want."""
        self._groups[want] -= 1
        if not self._groups[want]:
            del self._groups[want]
            self._short.discard(want)
            counts = self._counts[want.priority]
            del counts[bisect_left(counts, want.count)]
            if not counts:
                del self._counts[want.priority]

    def is_short(self, want: Want) -> bool:
        """Whether too few units are free for one more job with this want."""
        return want.count > self._bound(want.priority)

    def update(self, free: int, keeper: Want | None) -> list[tuple[Want, bool]]:
        """Count so many units as free, and keep units for this want; return the wants that this changed.

        Returns: wants that groups have, each with whether it is short now.
        Cost: O(log n) in the wants, and linear in those returned.
        """
        if free == self._free and keeper == self._keeper:
            return []
        bounds = {priority: self._bound(priority) for priority in self._counts}
        concerned: set[Want] = set()
        self._free, self._keeper = free, keeper
        for priority, before in bounds.items():
            concerned.update(self._between(priority, *sorted((before, self._bound(priority)))))
        changed = [(want, is_short) for want in concerned if (is_short := self.is_short(want)) != (want in self._short)]
        for want, is_short in changed:
            (self._short.add if is_short else self._short.discard)(want)
        # in an order that does not depend on hashes
        return sorted(changed, key=lambda each: (each[0].priority, each[0].count))

    def _bound(self, priority: int) -> int:
        keeper = self._keeper
        return self._free - keeper.count if keeper is not None and keeper.priority <= priority else self._free

    def _between(self, priority: int, low: int, high: int) -> Iterator[Want]:
        """The wants of this priority with counts above the one and up to the other."""
        counts = self._counts[priority]
        for count in counts[bisect_right(counts, low) : bisect_right(counts, high)]:
            yield Want(self._resource, count, priority)

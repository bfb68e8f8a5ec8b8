"""Rings of waits: owners of which each waits for the next, and the last for the first.

Theory. Owners ask only for locks after those they hold (`rules`), so to wait is to wait for an
owner that stands further along the line, and none stands behind itself. The one exception is an
upgrade: two that share a lock, or a group and a member of it, may each want it alone; the rule lets
them, as the lock is their greatest. Such a ring closes with the request of the last, and can be
refused then: an owner that is granted something does not wait, so no grant ever closes one.

Source: wconfd.md 5.3 and 9.6.
"""

from collections.abc import Callable, Iterable

from common.locks import Owner

Behind = Callable[[Owner], Iterable[Owner]]


def find_ring(first: Owner, behind: Behind) -> tuple[Owner, ...]:
    """A ring through `first`, each before the one it waits for; empty if there is none.

    Args:
        behind: returns the owners for which one waits; none if it does not wait.
    Cost: O(waits that can be reached).
    """
    came_from: dict[Owner, Owner] = {}
    left = [first]
    while left:
        waiter = left.pop()
        for other in behind(waiter):
            if other == first:
                return _path(came_from, waiter)
            if other not in came_from:
                came_from[other] = waiter
                left.append(other)
    return ()


def _path(came_from: dict[Owner, Owner], last: Owner) -> tuple[Owner, ...]:
    path = [last]
    while path[-1] in came_from:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))

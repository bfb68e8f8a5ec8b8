"""The lock methods. Only `waitLocks`, which is ours, ever waits for a lock.

Source: wconfd.md 2.1.
"""

import attrs

from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner
from common.shapes import Row
from protocol.messages import Request

# `[]` on the wire
Unit = tuple[()]
Owned = tuple[Lock, LockMode]
# (lock, its owners with their modes)
LockHolders = tuple[Lock, tuple[tuple[Owner, LockMode], ...]]


@attrs.frozen
class ListLocks(Request[tuple[Owned, ...]]):
    """The locks that an owner holds, in lock order; empty for an unknown owner.

    An owner of two parts is accepted, although Ganeti's daemon requires a third: two are its whole identity here
    (DESIGN section 11). So Ganeti's `gnt-debug wconfd listlocks`, which sends two and is refused there, works here.
    """

    METHOD = "listLocks"
    owner: Owner


@attrs.frozen
class ListAllLocks(Request[tuple[Lock, ...]]):
    """Every lock that is held, or a group lock of which a member is held."""

    METHOD = "listAllLocks"


@attrs.frozen
class ListAllLocksOwners(Request[tuple[LockHolders, ...]]):
    """The same locks with their direct holders."""

    METHOD = "listAllLocksOwners"


@attrs.frozen
class Pending(Row):
    """A pending request: `[priority, owner, requests]`."""

    # smaller is more urgent
    priority: int
    owner: Owner
    requests: tuple[LockRequest, ...]


@attrs.frozen
class LocksStatus(Row):
    """One snapshot: `[locks with owners, pending requests]`."""

    held: tuple[LockHolders, ...]
    pending: tuple[Pending, ...]


@attrs.frozen
class ListLocksWaitingStatus(Request[LocksStatus]):
    """All held locks with their owners, and all pending requests."""

    METHOD = "listLocksWaitingStatus"


@attrs.frozen
class TryUpdateLocks(Request[tuple[Owner, ...]]):
    """Update all or nothing, now; returns the blocking owners, empty if it was done."""

    METHOD = "tryUpdateLocks"
    owner: Owner
    requests: tuple[LockRequest, ...]


@attrs.frozen
class UpdateLocksWaiting(Request[tuple[Owner, ...]]):
    """Update, or queue the request; returns the blocking owners, empty if it was done."""

    METHOD = "updateLocksWaiting"
    owner: Owner
    # smaller is more urgent
    priority: int
    requests: tuple[LockRequest, ...]


@attrs.frozen
class HasPendingRequest(Request[bool]):
    METHOD = "hasPendingRequest"
    owner: Owner


@attrs.frozen
class WaitLocks(Request[bool]):
    """Return when the owner's pending request is granted (true) or the time is over (false).

    True at once if no request is pending: a caller that repeats the call after a lost reply gets the truth.
    """

    METHOD = "waitLocks"
    owner: Owner
    # seconds
    timeout: float


@attrs.frozen
class FreeLocks(Request[Unit]):
    """Drop the pending request and release everything."""

    METHOD = "freeLocks"
    owner: Owner


@attrs.frozen
class FreeLocksLevel(Request[Unit]):
    """Drop the pending request and release the locks of one level."""

    METHOD = "freeLocksLevel"
    owner: Owner
    level: LockLevel


@attrs.frozen
class DownGradeLocksLevel(Request[Unit]):
    """Drop the pending request and make the locks of one level shared."""

    METHOD = "downGradeLocksLevel"
    owner: Owner
    level: LockLevel


@attrs.frozen
class IntersectLocks(Request[Unit]):
    """Drop the pending request and release every lock that is not named."""

    METHOD = "intersectLocks"
    owner: Owner
    locks: tuple[Lock, ...]


@attrs.frozen
class OpportunisticLockUnion(Request[tuple[Lock, ...]]):
    """Take the free locks among these; returns the newly taken ones, the last first."""

    METHOD = "opportunisticLockUnion"
    owner: Owner
    wanted: tuple[Owned, ...]


@attrs.frozen
class GuardedOpportunisticLockUnion(Request[tuple[Lock, ...]]):
    """As `opportunisticLockUnion`, but takes at least `count` or none. The count comes first on the wire."""

    METHOD = "guardedOpportunisticLockUnion"
    count: int
    owner: Owner
    wanted: tuple[Owned, ...]


@attrs.frozen
class CleanupLocks(Request[Unit]):
    """Look now for dead owners and free their locks."""

    METHOD = "cleanupLocks"


@attrs.frozen
class Echo(Request[str]):
    """Return the text: a sign of life."""

    METHOD = "echo"
    text: str

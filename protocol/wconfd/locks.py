"""The lock methods. None but `waitLocks`, which is ours, ever waits for a lock.

Source: wconfd.md 2.1.
"""

import attrs

from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner
from common.shapes import Row
from protocol.messages import Request

# `[]` on the wire
Unit = tuple[()]
Owned = tuple[Lock, LockMode]
# a lock, and its owners with their modes
LockHolders = tuple[Lock, tuple[tuple[Owner, LockMode], ...]]


@attrs.frozen
class ListLocks(Request[tuple[Owned, ...]]):
    """The locks that an owner holds, in lock order; none of an unknown one.

    An owner of two parts is answered, where Ganeti's daemon insists on a third: two are all of its identity here
    (DESIGN section 11). So Ganeti's `gnt-debug wconfd listlocks`, which sends two and is refused there, gets an answer.
    """

    METHOD = "listLocks"
    owner: Owner


@attrs.frozen
class ListAllLocks(Request[tuple[Lock, ...]]):
    """Every lock that is held, or busy as a group because a member is."""

    METHOD = "listAllLocks"


@attrs.frozen
class ListAllLocksOwners(Request[tuple[LockHolders, ...]]):
    """The same locks with those who hold them directly."""

    METHOD = "listAllLocksOwners"


@attrs.frozen
class Pending(Row):
    """A request that waits: `[priority, owner, requests]`."""

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
    """Who holds what, and who waits for what."""

    METHOD = "listLocksWaitingStatus"


@attrs.frozen
class TryUpdateLocks(Request[tuple[Owner, ...]]):
    """Update all or nothing, now; answers who is in the way, nobody if done."""

    METHOD = "tryUpdateLocks"
    owner: Owner
    requests: tuple[LockRequest, ...]


@attrs.frozen
class UpdateLocksWaiting(Request[tuple[Owner, ...]]):
    """Update, or queue the request; answers who is in the way, nobody if done."""

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
    """Answer when the owner's pending request is granted (true) or the time is over (false).

    True at once if nothing is pending: whoever asks again after a lost answer is told the truth.
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
    """Take what is free of these; answers what was newly taken, the last first."""

    METHOD = "opportunisticLockUnion"
    owner: Owner
    wanted: tuple[Owned, ...]


@attrs.frozen
class GuardedOpportunisticLockUnion(Request[tuple[Lock, ...]]):
    """The same, but all or nothing of at least `count`. The count comes first on the wire."""

    METHOD = "guardedOpportunisticLockUnion"
    count: int
    owner: Owner
    wanted: tuple[Owned, ...]


@attrs.frozen
class CleanupLocks(Request[Unit]):
    """Look now for owners that are dead and free what they hold."""

    METHOD = "cleanupLocks"


@attrs.frozen
class Echo(Request[str]):
    """Answer the text: a sign of life."""

    METHOD = "echo"
    text: str

"""The lock methods. Only `waitLocks`, which is ours, ever waits for a lock.

Source: wconfd.md 2.1.
"""

from typing import Final

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


# Orphaned locks: locks that outlive their owner, because its command may still run on a node; methods of ours.
#
# Theory. An owner says which of its commands *may still run*: on which node, under which key; it does so before a
# command is started there. When such an owner dies, its pending request is dropped, and what it holds stays held: it
# is an *orphan*, and these are *orphaned locks*. They end in three ways. A new process of the same job adopts them,
# with the commands. Or none of its commands may still run, by the word of the node's daemon, of an operator, or of a
# fence; then they are released. Or the time is over that orphaned locks are given, if any is set. A command does not
# bind a living owner: when it releases all its locks, what it has said of its commands is gone with them.
#
# What owners have said lies in `ghosts.data` beside `locks.data`, which stays as Ganeti knows it. That file, the
# methods (`guardLocks`, `layGuards`, `raiseGhosts`, `listGhosts`), the event and the keys of JSON keep their old
# names: for those an orphan was a ghost, and a command of it a guard.
#
# Source: DESIGN sections 13 and 14.


ORPHANS_CHANGED: Final = "ghostsChanged"


@attrs.frozen
class CommandOnNode(Row):
    """A command that may still run: `[node, key]`."""

    # name of the node
    node: str
    # see `protocol.noded.commands`
    key: str


@attrs.frozen
class KeepLocks(Request[Unit]):
    """Keep the owner's locks beyond its death, as long as these commands may still run.

    Durability: on return that survives a loss of power.
    """

    METHOD = "guardLocks"
    owner: Owner
    commands: tuple[CommandOnNode, ...]


@attrs.frozen
class ReleaseKeptLocks(Request[Unit]):
    """Say that nothing of these keys runs any more; orphaned locks for which no command may still run are released.

    Unknown keys are no error. Durability: on return the release survives a loss of power.
    """

    METHOD = "layGuards"
    keys: tuple[str, ...]
    # for the log, and for the events: "node web2: ended", "fenced by an operator"
    word: str


@attrs.frozen
class AdoptLocks(Request[tuple[Owned, ...]]):
    """Give the orphaned locks of the owner's job, with the commands, to the owner; returns what it holds then.

    The owner is a new process of the job. Delivered twice, it returns the same. Refused while an earlier owner of
    the job lives.
    """

    METHOD = "adoptLocks"
    owner: Owner


@attrs.frozen
class Claim(Row):
    """What a job held under an earlier master: `[owner, [[lock, mode], ...], [command, ...]]`."""

    owner: Owner
    locks: tuple[tuple[Lock, LockMode], ...]
    commands: tuple[CommandOnNode, ...]


@attrs.frozen
class ClaimLocks(Request[tuple[Owner, ...]]):
    """Take locks for owners that this wconfd does not know, as orphaned ones; returns the refused owners.

    For a new master. A claim is refused if another owner's lock conflicts with it; one of known commands changes
    nothing.
    """

    METHOD = "raiseGhosts"
    claims: tuple[Claim, ...]


@attrs.frozen
class OrphanedLocks(Row):
    """The locks of a dead owner whose commands may still run: `[owner, since, ends at or null, commands, locks]`."""

    owner: Owner
    # seconds since 1970
    since: float
    # when they are released without any word; null: never
    ends_at: float | None
    commands: tuple[CommandOnNode, ...]
    locks: tuple[Owned, ...]


@attrs.frozen
class ListOrphanedLocks(Request[tuple[OrphanedLocks, ...]]):
    """All orphaned locks, by owner."""

    METHOD = "listGhosts"


# `explainWait`: why an owner waits for locks, to the end of the chain. `explainHoldings`: since when locks are held.
#
# Both are ours. Instants are seconds since the epoch. They are kept in memory: null means "before `counting_since`",
# the start of wconfd.
#
# Source: DESIGN section 6.


@attrs.frozen
class InTheWay:
    """A lock of another owner that blocks one item of a request."""

    # requested lock and mode
    lock: Lock
    mode: LockMode
    # blocking owner and its lock: the same lock, its group, or a member of it
    holder: Owner
    held: Lock
    held_mode: LockMode
    held_since: float | None


@attrs.frozen
class OwnerWait:
    """One pending request."""

    owner: Owner
    priority: int
    asked: tuple[LockRequest, ...]
    waiting_since: float | None
    # blocking locks, in lock order
    in_the_way: tuple[InTheWay, ...]
    # owners that wait as well, were passed too often, and therefore go first
    held_back_by: tuple[Owner, ...]


@attrs.frozen
class WaitExplanation:
    """The pending requests between an owner and those it really waits for."""

    # first the asked owner's, then those of blocking owners that wait too, nearest first; empty: it does not wait
    waits: tuple[OwnerWait, ...]
    # blocking owners that wait for no lock
    roots: tuple[Owner, ...]
    # rings of owners: each waits for the next, and the last for the first
    rings: tuple[tuple[Owner, ...], ...]
    counting_since: float
    # of the roots that are orphans; the key has the name that they had before
    ghosts: tuple[OrphanedLocks, ...] = ()


@attrs.frozen
class ExplainWait(Request[WaitExplanation]):
    METHOD = "explainWait"
    owner: Owner


@attrs.frozen
class HeldSince:
    owner: Owner
    lock: Lock
    mode: LockMode
    since: float | None


@attrs.frozen
class HoldingsExplanation:
    # locks by owner in the order asked, then in lock order
    held: tuple[HeldSince, ...]
    counting_since: float


@attrs.frozen
class ExplainHoldings(Request[HoldingsExplanation]):
    """The locks that these owners hold, and since when; an owner without locks is left out."""

    METHOD = "explainHoldings"
    owners: tuple[Owner, ...]


# `subscribe`: lock and configuration changes as events on one connection; ours.
#
# After the reply come notifications. `locksChanged` has `[[owner, [[lock, mode], ...]], ...]`: each owner
# whose holdings or pending request changed, with all its present holdings, in the order of the changes.
# `configChanged` has the serial number, and whether filter rules or limits of jobs changed.
# `ghostsChanged` has all orphaned locks, whenever some come, change or go (`protocol.wconfd.locks`).
# `keptChanged` has the name of what was changed: `schedules` or `resources`; runs of schedules are not told.
#
# Source: DESIGN section 8.


LOCKS_CHANGED: Final = "locksChanged"
CONFIG_CHANGED: Final = "configChanged"
KEPT_CHANGED: Final = "keptChanged"
SCHEDULES: Final = "schedules"
RESOURCES: Final = "resources"

Holdings = tuple[Owner, tuple[Owned, ...]]


@attrs.frozen
class SubscribeToChanges(Request[tuple[tuple[Holdings, ...], int]]):
    """Take over the connection; returns the present holdings and the configuration's serial number."""

    METHOD = "subscribe"

"""`explainWait`: why an owner waits for locks, to the end of the chain. `explainHoldings`: since when locks are held.

Both are ours.

Instants are seconds since the epoch. They are kept in memory: null means "since before wconfd was
started", which was at `counting_since`.

Source: DESIGN section 6.
"""

import attrs

from common.locks import Lock, LockMode, LockRequest, Owner
from protocol.messages import Request


@attrs.frozen
class InTheWay:
    """One lock of another owner that keeps one item of a request out."""

    # what is asked for
    lock: Lock
    mode: LockMode
    # who is in the way, and by what: the lock itself, its group, or a member of it
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
    # in lock order
    in_the_way: tuple[InTheWay, ...]
    # who waits as well and was passed too often already, so that it goes first
    held_back_by: tuple[Owner, ...]


@attrs.frozen
class WaitExplanation:
    """The requests that are pending between an owner and those for whom it really waits."""

    # first the one that was asked about, then those in its way that wait too, nearest first; empty: it does not wait
    waits: tuple[OwnerWait, ...]
    # in the way, and waiting for no lock
    roots: tuple[Owner, ...]
    # owners each of whom waits for the next, and the last for the first
    rings: tuple[tuple[Owner, ...], ...]
    counting_since: float


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
    # by owner as asked, then in lock order
    held: tuple[HeldSince, ...]
    counting_since: float


@attrs.frozen
class ExplainHoldings(Request[HoldingsExplanation]):
    """What these owners hold, and since when; nothing of one that holds nothing."""

    METHOD = "explainHoldings"
    owners: tuple[Owner, ...]

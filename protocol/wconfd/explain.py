"""`explainWait`: why an owner waits for locks, to the end of the chain. `explainHoldings`: since when locks are held.

Both are ours. Instants are seconds since the epoch. They are kept in memory: null means "before `counting_since`",
the start of wconfd.

Source: DESIGN section 6.
"""

import attrs

from common.locks import Lock, LockMode, LockRequest, Owner
from protocol.messages import Request
from protocol.wconfd.ghosts import Ghost


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
    # the roots that are ghosts: their processes are gone, and their commands may still run on the nodes of their guards
    ghosts: tuple[Ghost, ...] = ()


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

"""What an owner may ask, given what it holds; the holdings of others do not matter.

Why an order: if each owner asks only for locks after those it holds, the owners that wait for one
another can never form a ring. What is covered by a lock already held strongly enough cannot be blocked by
anybody, so it may be asked at any time: this is how a group lock is broken up.

Only what is held before the request counts: its own releases do not help it, and its items are
not compared with one another, as they are granted together.

Source: daemons design, "Locking"; wconfd.md 5.2.
"""

from collections.abc import Iterable, Sequence

from common.errors import LockRuleViolation, OrderViolation
from common.locks import Lock, LockMode, LockRequest
from daemons.wconfd.core.locks.holdings import Holdings


def check_rules(holdings: Holdings | None, requests: Sequence[LockRequest]) -> None:
    """Refuse a request that its owner may not make; None if the owner holds nothing.

    Raises, the first that applies:
        LockRuleViolation: the same lock occurs with two modes.
        OrderViolation: an item lies before a held lock, and is not covered by what is held.
        LockRuleViolation: an exclusive lock under a group that is held shared.
    Cost: O(requests); rarely, see `Holdings.is_above`, O(locks of the owner).
    """
    _refuse_inconsistent(requests)
    if holdings is None:
        return
    for request in requests:
        _refuse_disorder(holdings, request)
    for request in requests:
        _refuse_exclusive_under_shared(holdings, request)


def _refuse_inconsistent(requests: Iterable[LockRequest]) -> None:
    modes: dict[Lock, LockMode | None] = {}
    for request in requests:
        if modes.setdefault(request.lock, request.mode) is not request.mode:
            raise LockRuleViolation(
                f"inconsistent lock request: '{request.lock}' occurs twice with different modes; ask for one of them",
                lock=str(request.lock),
            )


def _refuse_disorder(holdings: Holdings, request: LockRequest) -> None:
    lock, mode, group = request.lock, request.mode, request.lock.group
    if mode is None or not holdings.is_above(lock):
        return
    covers = (holdings.modes.get(held) for held in (lock, group) if held)
    if not any(cover and cover.covers(mode) for cover in covers):
        top = holdings.greatest()
        raise OrderViolation(
            f"lock order violation: '{lock}' asked while holding '{top}'; "
            f"release '{top}' or ask for both in one request",
            lock=str(lock),
            held=str(top),
        )


def _refuse_exclusive_under_shared(holdings: Holdings, request: LockRequest) -> None:
    group = request.lock.group
    if request.mode is LockMode.EXCLUSIVE and group and holdings.modes.get(group) is LockMode.SHARED:
        raise LockRuleViolation(
            f"exclusive lock under a shared group: '{request.lock}' asked exclusive while holding "
            f"'{group}' shared; release the group, or ask for it exclusive, in a request before",
            lock=str(request.lock),
            held=str(group),
        )

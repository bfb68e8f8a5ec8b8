"""Allocation: the holders of each lock, and whether a request may be granted now.

Theory. The only fact is, for each owner, a map lock -> mode. Everything else is derived and kept
beside it for speed: for each lock its direct holders, and for each group lock the owners that
hold members of it, with counts. Which holdings conflict is said by `common.locks.conflicts`.

A request meets others only at its *gates*. Asking for L in mode t, these are: the direct holders
of L, the direct holders of L's group, and, if L is a group, the holders of its members. At each gate
stands a *wall*: the owners whose holding conflicts with t. A request is blocked by every owner,
other than the asker, that stands in one of its walls. Two invariants make a wall one look-up: an
exclusive holder is alone, so a shared request meets either that one or none; and the holders of
exclusive members are counted apart from the holders of members.

A table is a value: an update returns another one that shares all it did not touch, and a refused
request returns the very same one. Considered and rejected: plain dicts (a copy costs O(all
locks)), and a mutable table with an undo log (no old snapshot to write to disk or to list from
while the next request is served).

Source: daemons design, "Locking"; wconfd.md 5.1 and 5.2.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import attrs
from immutables import Map, MapMutation

from common.errors import LockRuleViolation, OrderViolation
from common.jsontext import ascii_json
from common.locks import Lock, LockMode, LockRequest, Owner, owned_to_wire

# What one owner holds, and the holders of one lock: the two leaves of the lock table.
#
# Both are values. Their maps are persistent hash tries (`immutables`): a changed map shares all
# untouched branches with the old one, so a change costs the same whether the owner holds ten locks
# or a hundred thousand. A plain dict would have to be copied whole at each change.
#
# Source: wconfd.md 5.1.


_NO_MODES: Final[Map[Lock, LockMode]] = Map()
_NO_DIRECT: Final[Map[Owner, LockMode]] = Map()
NOBODY: Final[Map[Owner, int]] = Map()


@attrs.frozen
class Holdings:
    """All locks of one owner, without anything that groups imply."""

    # owner as in its last change, but a pid once known is kept
    owner: Owner
    modes: Map[Lock, LockMode] = _NO_MODES
    # bound: no held lock is greater; None only if nothing was ever held
    _bound: Lock | None = attrs.field(default=None, eq=False, repr=False)

    def is_above(self, lock: Lock) -> bool:
        """Whether a lock greater than `lock` is held.

        Cost: O(1); after the greatest lock was released O(locks of this owner), once, and only
        if `lock` lies before the released one.
        """
        if self._bound is None or not lock < self._bound:
            return False
        return lock < self.greatest()

    def greatest(self) -> Lock:
        """The greatest held lock; at least one is held. Cost: as `is_above`."""
        if self._bound is None or self._bound not in self.modes:
            # a tighter bound for the same holdings: nothing that can be seen changes
            object.__setattr__(self, "_bound", max(self.modes, key=lambda lock: lock.place))
        assert self._bound is not None
        return self._bound

    def with_modes(self, owner: Owner, changes: Mapping[Lock, LockMode | None]) -> "Holdings":
        """These holdings after `changes`, where None releases. Cost: O(changes)."""
        modes, bound = self.modes.mutate(), self._bound
        for lock, mode in changes.items():
            if mode is None:
                modes.pop(lock, None)
            else:
                modes[lock] = mode
                bound = lock if bound is None or bound < lock else bound
        return Holdings(self.owner if owner.pid is None else owner, modes.finish(), bound)

    def in_order(self) -> list[tuple[Lock, LockMode]]:
        return sorted(self.modes.items(), key=lambda held: held[0].place)

    @cached_property
    def place(self) -> tuple[bool, int, str, str]:
        """Where this owner stands among all owners."""
        return self.owner.sort_key()

    @cached_property
    def row(self) -> bytes:
        """This owner's row of `locks.data`, made at most once: an update encodes only the owners that changed."""
        return ascii_json([self.owner.to_wire(), owned_to_wire(self.in_order())])


@attrs.frozen
class Holders:
    """The holders of one lock, directly and, if it is a group lock, through its members."""

    # an exclusive holder is alone
    direct: Map[Owner, LockMode] = _NO_DIRECT
    # number of locks of this group that each owner holds; no zeros
    through_members: Map[Owner, int] = NOBODY
    # number of those that are held exclusively
    through_exclusive_members: Map[Owner, int] = NOBODY

    @property
    def is_exclusive(self) -> bool:
        """Whether the lock itself is held exclusively. Cost: O(1), as an exclusive holder is alone."""
        return len(self.direct) == 1 and next(iter(self.direct.values())) is LockMode.EXCLUSIVE

    def with_direct(self, owner: Owner, mode: LockMode | None) -> "Holders":
        direct = self.direct.delete(owner) if mode is None else self.direct.set(owner, mode)
        return Holders(direct, self.through_members, self.through_exclusive_members)

    def with_members(self, owner: Owner, held: int, exclusive: int) -> "Holders":
        """Add to the counts of `owner`; a count that becomes zero goes."""
        return Holders(
            self.direct,
            _counted(self.through_members, owner, held),
            _counted(self.through_exclusive_members, owner, exclusive),
        )

    def __bool__(self) -> bool:
        return bool(self.direct) or bool(self.through_members)

    def __iter__(self) -> Iterator[tuple[Owner, LockMode]]:
        """The direct holders, in owner order."""
        return iter(sorted(self.direct.items(), key=lambda held: held[0].sort_key()))


def _counted(counts: Map[Owner, int], owner: Owner, change: int) -> Map[Owner, int]:
    if not change:
        return counts
    count = counts.get(owner, 0) + change
    return counts.set(owner, count) if count else counts.delete(owner)


# What an owner may ask, given what it holds; the holdings of others do not matter.
#
# Why an order: if each owner asks only for locks after those it holds, the owners that wait for one
# another can never form a ring. What is covered by a lock already held strongly enough cannot be blocked by
# anybody, so it may be asked at any time: this is how a group lock is broken up.
#
# Only what is held before the request counts: its own releases do not help it, and its items are
# not compared with one another, as they are granted together.
#
# Source: daemons design, "Locking"; wconfd.md 5.2.


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


_NO_HOLDERS: Final = Holders()
_NO_HOLDINGS: Final[Map[Owner, Holdings]] = Map()

_NO_INDEX: Final[Map[Lock, Holders]] = Map()


@attrs.frozen(cache_hash=True)
class LockGate:
    """A lock, or the members of a group lock, as met by requests of one mode."""

    lock: Lock
    is_at_members: bool
    mode: LockMode


@attrs.frozen
class LockTable:
    """The locks of each owner. Start from `LockTable()`; change it by `update_locks` and `set_modes`."""

    # no empty holdings
    _holdings: Map[Owner, Holdings] = _NO_HOLDINGS
    # derived from the holdings: every active lock, no empty entry
    _holders: Map[Lock, Holders] = attrs.field(default=_NO_INDEX, eq=False, repr=False)

    def held_by(self, owner: Owner) -> Mapping[Lock, LockMode]:
        """The locks held directly, in lock order; empty for an unknown owner."""
        holdings = self._holdings.get(owner)
        return dict(holdings.in_order()) if holdings else {}

    def holdings_of(self, owner: Owner) -> Holdings | None:
        """None: it holds nothing."""
        return self._holdings.get(owner)

    def modes_of(self, owner: Owner) -> Mapping[Lock, LockMode]:
        """As `held_by`, in no order. Cost: O(1)."""
        holdings = self._holdings.get(owner)
        return holdings.modes if holdings else _NO_MODES

    def mode_of(self, owner: Owner, lock: Lock) -> LockMode | None:
        """The mode held directly; what a group implies does not count. Cost: O(1)."""
        return self.modes_of(owner).get(lock)

    def greatest_of(self, owner: Owner) -> Lock | None:
        """The greatest lock held directly. Cost: O(1), rarely as `Holdings.greatest`."""
        holdings = self._holdings.get(owner)
        return holdings.greatest() if holdings else None

    def held_by_process(self, pid: int) -> dict[Lock, LockMode]:
        """What the owners hold that have named this process; exclusive wins. Cost: linear in owners."""
        held: dict[Lock, LockMode] = {}
        for holdings in self._holdings.values():
            if holdings.owner.pid == pid:
                held.update((lock, mode) for lock, mode in holdings.modes.items() if mode.covers(held.get(lock)))
        return held

    def owners(self) -> tuple[Owner, ...]:
        """All owners that hold a lock, in owner order."""
        return tuple(holdings.owner for holdings in self.all_holdings())

    def holders(self, lock: Lock) -> Mapping[Owner, LockMode]:
        """The direct holders, in owner order; empty if there are none."""
        return {self.as_known(owner): mode for owner, mode in self._holders.get(lock, _NO_HOLDERS)}

    def active_locks(self) -> tuple[Lock, ...]:
        """Every lock that is held, or is the group of a held one, in lock order."""
        return tuple(sorted(self._holders))

    def owner_count(self) -> int:
        """Number of owners that hold a lock. Cost: O(1)."""
        return len(self._holdings)

    def held_count(self) -> int:
        """Number of locks held directly, a shared one counted for each holder. Cost: linear in owners."""
        return sum(len(holdings.modes) for holdings in self._holdings.values())

    def locks_with_holders(self) -> tuple[tuple[Lock, Mapping[Owner, LockMode]], ...]:
        """The active locks, each with its direct holders: none for a group held through members only."""
        return tuple((lock, self.holders(lock)) for lock in self.active_locks())

    def all_holdings(self) -> list[Holdings]:
        """What each owner holds, in owner order."""
        return sorted(self._holdings.values(), key=lambda holdings: holdings.place)

    def as_known(self, owner: Owner) -> Owner:
        """The same owner, with its pid if it holds locks and ever told one."""
        holdings = self._holdings.get(owner)
        return holdings.owner if holdings else owner

    def wall(self, gate: LockGate) -> Map[Owner, LockMode] | Map[Owner, int]:
        """All owners whose holding conflicts with a request at this gate. Cost: O(1)."""
        holders = self._holders.get(gate.lock, _NO_HOLDERS)
        is_exclusive = gate.mode is LockMode.EXCLUSIVE
        if gate.is_at_members:
            return holders.through_members if is_exclusive else holders.through_exclusive_members
        return holders.direct if is_exclusive or holders.is_exclusive else NOBODY

    def is_shut(self, gate: LockGate, owner: Owner) -> bool:
        """Whether another owner stands in this gate's wall. Cost: O(1)."""
        wall = self.wall(gate)
        return len(wall) > (owner in wall)

    def shut_gate(self, owner: Owner, requests: Sequence[LockRequest]) -> LockGate | None:
        """The first gate that keeps this request out; None if it is free to go. Cost: O(requests)."""
        return next((gate for gate in gates_of(requests) if self.is_shut(gate, owner)), None)

    def blockers(self, owner: Owner, requests: Sequence[LockRequest]) -> tuple[Owner, ...]:
        """All other owners whose holdings conflict with the request, in owner order.

        Cost: O(requests + holders in the way).
        """
        found = {other for gate in dict.fromkeys(gates_of(requests)) for other in self.wall(gate)}
        return tuple(sorted(map(self.as_known, found - {owner}), key=Owner.sort_key))

    def is_satisfied(self, owner: Owner, requests: Sequence[LockRequest]) -> bool:
        """Whether each item is exactly true: held in just that mode, or a release of a lock not held."""
        return all(self.mode_of(owner, request.lock) is request.mode for request in requests)

    def check_rules(self, owner: Owner, requests: Sequence[LockRequest]) -> None:
        """Refuse a request that may never be made with these holdings; see `rules`.

        Raises: OrderViolation, LockRuleViolation.
        """
        check_rules(self._holdings.get(owner), requests)

    def set_modes(self, owner: Owner, modes: Mapping[Lock, LockMode | None]) -> "LockTable":
        """Give, change and take away locks, None being a release; checks no conflict.

        The caller guarantees that no other owner's holding conflicts with `modes`.

        Cost: O(modes).
        """
        old = self._holdings.get(owner) or Holdings(owner)
        changes = {lock: mode for lock, mode in modes.items() if old.modes.get(lock) is not mode}
        if not changes:
            return self
        new = old.with_modes(owner, changes)
        holdings = self._holdings.set(owner, new) if new.modes else self._holdings.delete(owner)
        return LockTable(holdings, self._with_holders(owner, old, changes))

    def _with_holders(self, owner: Owner, old: Holdings, changes: Mapping[Lock, LockMode | None]) -> Map[Lock, Holders]:
        index = self._holders.mutate()
        for lock, mode in changes.items():
            _put(index, lock, index.get(lock, _NO_HOLDERS).with_direct(owner, mode))
        for group, (held, exclusive) in _member_counts(old, changes).items():
            _put(index, group, index.get(group, _NO_HOLDERS).with_members(owner, held, exclusive))
        return index.finish()


@attrs.frozen
class Verdict:
    """The result of one request."""

    # table after the request; the very same one when blocked
    table: LockTable
    # owners in the way, in owner order; empty: granted
    blocked_on: tuple[Owner, ...] = ()


def update_locks(table: LockTable, owner: Owner, requests: Sequence[LockRequest]) -> Verdict:
    """Grant all items of a request at once, or tell the owners in the way.

    Returns:
        Granted: every item is true of the new table. Blocked: the same table, and every other
        owner whose holdings conflict with an item. Releasing what is not held is fine.
    Raises:
        OrderViolation, LockRuleViolation: as `LockTable.check_rules`; nothing was changed.
    Cost: O(items + owners in the way), whatever else is held.
    Source: wconfd.md 5.2.
    """
    table.check_rules(owner, requests)
    blocked_on = table.blockers(owner, requests)
    if blocked_on:
        return Verdict(table, blocked_on)
    return Verdict(table.set_modes(owner, wanted_modes(requests)))


def wanted_modes(requests: Iterable[LockRequest]) -> dict[Lock, LockMode | None]:
    return {request.lock: request.mode for request in requests}


def gates_of(requests: Iterable[LockRequest]) -> Iterator[LockGate]:
    """All gates that a request must pass; a release passes none. May repeat a group's gate."""
    for request in requests:
        if request.mode is not None:
            lock, group = request.lock, request.lock.group
            yield LockGate(lock, False, request.mode)
            if group:
                yield LockGate(group, False, request.mode)
            if lock.is_group:
                yield LockGate(lock, True, request.mode)


def _put(index: MapMutation[Lock, Holders], lock: Lock, holders: Holders) -> None:
    if holders:
        index[lock] = holders
    else:
        del index[lock]


def opened_gates(before: Mapping[Lock, LockMode], changes: Mapping[Lock, LockMode | None]) -> Iterator[LockGate]:
    """The gates where an owner's change makes room: whose wall it leaves, or in which it stands with less.

    Args: before: what it held. changes: only those that change anything.
    """
    weaker = [lock for lock, mode in changes.items() if lock in before and mode is not LockMode.EXCLUSIVE]
    groups = dict.fromkeys(lock.group for lock in weaker)
    for mode in LockMode:
        yield from (LockGate(lock, False, mode) for lock in weaker)
        yield from (LockGate(group, True, mode) for group in groups if group)


def _member_counts(old: Holdings, changes: Mapping[Lock, LockMode | None]) -> dict[Lock, tuple[int, int]]:
    counts: dict[Lock, tuple[int, int]] = {}
    for lock, mode in changes.items():
        if group := lock.group:
            was = old.modes.get(lock)
            held, exclusive = counts.get(group, (0, 0))
            held += (mode is not None) - (was is not None)
            exclusive += (mode is LockMode.EXCLUSIVE) - (was is LockMode.EXCLUSIVE)
            counts[group] = (held, exclusive)
    return counts

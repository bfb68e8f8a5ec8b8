"""The table of locks, as wconfd tells it: who holds what, and who waits for what.

Source: wconfd.md 2, `listLocksWaitingStatus`; STYLE section 8.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from common.errors import ProtocolError
from common.locks import Lock, LockMode, LockRequest, Owner, parse_lock, parse_mode

Held = tuple[Owner, LockMode]


@attrs.frozen
class LockRow:
    """One lock; owners and pending requests in the order of wconfd."""

    lock: Lock
    owners: tuple[Held, ...]
    pending: tuple[Held, ...]

    @property
    def mode(self) -> LockMode | None:
        """The strongest mode in which it is held."""
        modes = {mode for _, mode in self.owners}
        return next((mode for mode in (LockMode.EXCLUSIVE, LockMode.SHARED) if mode in modes), None)


@attrs.frozen
class LockView:
    """All locks that somebody holds or waits for, in lock order."""

    rows: tuple[LockRow, ...]

    def waits_for(self, owner_name: str) -> Sequence[tuple[Lock, LockMode, Sequence[Owner]]]:
        """What an owner's pending request still lacks: lock, mode, and who holds it directly or as a group."""
        found = []
        for row in self.rows:
            for owner, mode in row.pending:
                if str(owner) == owner_name and (holders := self._holders(row.lock, mode, owner)):
                    found.append((row.lock, mode, holders))
        return found

    def _holders(self, lock: Lock, mode: LockMode, asker: Owner) -> list[Owner]:
        related = [
            row for row in self.rows if row.lock in (lock, lock.group) or (lock.is_group and row.lock.group == lock)
        ]
        holders = [
            owner
            for row in related
            for owner, held in row.owners
            if owner != asker and (mode is LockMode.EXCLUSIVE or held is LockMode.EXCLUSIVE)
        ]
        return list(dict.fromkeys(holders))


def read_lock_view(answer: Any) -> LockView:
    """Read what `listLocksWaitingStatus` answers.

    Raises: ProtocolError: it has another form. InvalidRequest: a name or mode in it is unknown.
    """
    try:
        held, waiting = answer
        owners = {parse_lock(name): _held(owned) for name, owned in held}
        pending = _by_lock((Owner.from_wire(owner), requests) for _, owner, requests in waiting)
    except (TypeError, ValueError) as error:
        raise ProtocolError("wconfd's answer on locks has an unknown form; is it of another version?") from error
    locks = sorted({lock for lock, found in owners.items() if found} | set(pending))
    return LockView(tuple(LockRow(lock, owners.get(lock, ()), tuple(pending.get(lock, ()))) for lock in locks))


def _held(owned: Iterable[Sequence[Any]]) -> tuple[Held, ...]:
    return tuple((Owner.from_wire(owner), parse_mode(mode)) for owner, mode in owned)


def _by_lock(waiting: Iterable[tuple[Owner, Sequence[Any]]]) -> Mapping[Lock, list[Held]]:
    found: dict[Lock, list[Held]] = {}
    for owner, requests in waiting:
        for request in map(LockRequest.from_wire, requests):
            if request.mode is not None:
                found.setdefault(request.lock, []).append((owner, request.mode))
    return found

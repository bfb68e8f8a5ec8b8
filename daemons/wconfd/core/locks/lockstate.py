"""The lock state as the bytes of `locks.data`, and back.

The file is `[allocation, pending]`: `[owner, [[lock, mode], ...]]` in owner order, and
`[priority, owner, [[lock, mode], ...]]` in order of trial. What groups imply is not stored.

Source: wconfd.md 6.2 and 6.3.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Self

import attrs
import orjson

from common.errors import DamagedFile, GantryError, InvalidRequest, LockRuleViolation
from common.locks import Lock, LockMode, LockRequest, Owner, owned_from_wire
from daemons.wconfd.core.locks.guards import NO_GUARDS, Guards
from daemons.wconfd.core.locks.pending import LockState
from daemons.wconfd.core.locks.requests import PendingRequest
from daemons.wconfd.core.locks.table import LockTable, update_locks
from daemons.wconfd.core.locks.waiting import update_or_queue


def encode(state: LockState) -> bytes:
    """Compact JSON in pure ASCII.

    Cost: rows of owners and requests unchanged since an earlier call are joined, not made again.
    """
    held = b",".join(holdings.row for holdings in state.table.all_holdings())
    pending = b",".join(request.row for request in state.all_pending())
    return b"[[%b],[%b]]" % (held, pending)


@attrs.define
class LockRows:
    """Holdings and pending requests as they are stored; whether that state is possible is not checked yet."""

    # the key's own pid does not count
    held: dict[Owner, tuple[Owner, dict[Lock, LockMode]]] = attrs.Factory(dict)
    # more than one of an owner only in a file that is not ours
    pending: dict[Owner, list[PendingRequest]] = attrs.Factory(dict)

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Read what `encode` made.

        Raises: DamagedFile: it is something else; `where` is the place: `byte 17`, or `$[0][3]` for the
            fourth owner.
        """
        try:
            value = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise _damaged(f"byte {len(error.doc[: error.pos].encode())}", error.msg) from error
        rows = cls()
        match value:
            case [list() as allocation, list() as pending]:
                _read_each("$[0]", allocation, rows._read_held)
                _read_each("$[1]", pending, rows._read_pending)
                return rows
            case _:
                raise _damaged("$", "expected [[owner, locks], ...] and [[priority, owner, requests], ...]")

    def requests(self) -> list[PendingRequest]:
        """All that is pending, in order of trial."""
        return sorted((each for row in self.pending.values() for each in row), key=lambda request: request.place)

    def is_exactly(self, state: LockState) -> bool:
        """Whether nothing was granted or dropped when this state was made of these rows."""
        return all(state.pending_of(request.owner) == request for request in self.requests())

    def _read_held(self, row: object) -> None:
        match row:
            case [wire_owner, [_, *_] as wire_locks]:
                owner = Owner.from_wire(wire_owner)
                owned = [owned_from_wire(held) for held in wire_locks]
            case _:
                raise InvalidRequest(f"expected an owner and its locks, at least one; got {row!r}")
        modes = dict(owned)
        if owner in self.held:
            raise InvalidRequest(f"owner {owner} is listed twice")
        if any(modes[lock] is not mode for lock, mode in owned):
            raise InvalidRequest(f"owner {owner} has a lock in two modes")
        self.held[owner] = (owner, modes)

    def _read_pending(self, row: object) -> None:
        request = read_pending(row)
        self.pending.setdefault(request.owner, []).append(request)


def decode(content: bytes, max_bypass: int | None = None) -> LockState:
    """Rebuild the state that was encoded; `LockRows.read` and `rebuild`."""
    return rebuild(LockRows.read(content), max_bypass)


def rebuild(rows: LockRows, max_bypass: int | None = None, guards: Guards = NO_GUARDS) -> LockState:
    """The state that these rows say.

    A pending request that breaks a rule, or is its owner's second, is dropped; neither occurs in a file
    written by `encode`. One that no holder keeps out was held back by an overdue one, and is again; without
    a bound on bypassing, or if there is no such, it is granted: the state is another than the rows' then.

    Args:
        max_bypass: see `fairness`.
        guards: those of owners that hold nothing are dropped.
    Raises: DamagedFile: two owners hold what only one can; `where` is the place of the second, as `$[0][3]`.
    """
    table = LockTable()
    for index, (owner, modes) in enumerate(rows.held.values()):
        try:
            table = _with_owner(table, owner, [LockRequest(lock, mode) for lock, mode in modes.items()])
        except GantryError as error:
            raise _damaged(f"$[0][{index}]", error.message) from error
    for owner, _ in guards:
        if not table.modes_of(owner):
            guards = guards.without(owner)
    return _with_pending(LockState.fair(max_bypass).with_table(table).with_guards(guards), rows.requests())


def _read_each(place: str, values: list[object], read: Callable[[object], None]) -> None:
    for index, value in enumerate(values):
        try:
            read(value)
        except InvalidRequest as error:
            raise _damaged(f"{place}[{index}]", error.message) from error


def _with_owner(table: LockTable, owner: Owner, requests: Sequence[LockRequest]) -> LockTable:
    verdict = update_locks(table, owner, requests)
    if verdict.blocked_on:
        raise InvalidRequest(f"{owner} holds locks that conflict with those of {verdict.blocked_on[0]}")
    return verdict.table


def _with_pending(state: LockState, pending: Iterable[PendingRequest]) -> LockState:
    free_to_go: list[PendingRequest] = []
    for request in pending:
        gate = state.table.shut_gate(request.owner, request.requests)
        if gate is None:
            free_to_go.append(request)
        elif _is_sound(state, request):
            state = state.parked(request, gate)
    for request in free_to_go:
        state = _with_held_back(state, request)
    return state


def _is_sound(state: LockState, request: PendingRequest) -> bool:
    try:
        state.table.check_rules(request.owner, request.requests)
    except LockRuleViolation:
        return False
    return state.pending_of(request.owner) is None


def _with_held_back(state: LockState, request: PendingRequest) -> LockState:
    """With a request that no holder keeps out: behind the overdue, or, if it never was, granted."""
    behind = state.parked_behind_overdue(request) if _is_sound(state, request) else None
    if behind:
        return behind
    try:
        return update_or_queue(state, request.owner, request.priority, request.requests).state
    except LockRuleViolation:
        return state


def read_pending(row: object) -> PendingRequest:
    """Raises: InvalidRequest: not `[priority, owner, [[lock, mode], ...]]`."""
    match row:
        case [int() as priority, wire_owner, list() as wire_requests] if not isinstance(priority, bool):
            requests = tuple(LockRequest.from_wire(item) for item in wire_requests)
            return PendingRequest(priority, Owner.from_wire(wire_owner), requests)
        case _:
            raise InvalidRequest(f"expected a priority, an owner and its requests; got {row!r}")


def _damaged(where: str, what: str) -> DamagedFile:
    return DamagedFile(f"lock state is damaged at {where}: {what}", where=where)

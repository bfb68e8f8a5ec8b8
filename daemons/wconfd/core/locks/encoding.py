"""The locks as bytes, and back: `locks.data` and its journal."""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Self

import attrs
import orjson

from common.errors import DamagedFile, GantryError, InvalidRequest, LockRuleViolation
from common.jsontext import ascii_json
from common.locks import Lock, LockMode, LockRequest, Owner, owned_from_wire
from daemons.wconfd.core.locks.fairness import PendingRequest
from daemons.wconfd.core.locks.mayrun import NOTHING_RUNS, MayRun
from daemons.wconfd.core.locks.table import LockTable, update_locks
from daemons.wconfd.core.locks.waiting import LockChange, LockState, update_or_queue

# The lock state as the bytes of `locks.data`, and back.
#
# The file is `[allocation, pending]`: `[owner, [[lock, mode], ...]]` in owner order, and
# `[priority, owner, [[lock, mode], ...]]` in order of trial. What groups imply is not stored.
#
# Source: wconfd.md 6.2 and 6.3.


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


def rebuild(rows: LockRows, max_bypass: int | None = None, may_run: MayRun = NOTHING_RUNS) -> LockState:
    """The state that these rows say.

    A pending request that breaks a rule, or is its owner's second, is dropped; neither occurs in a file
    written by `encode`. One that no holder keeps out was held back by an overdue one, and is again; without
    a bound on bypassing, or if there is no such, it is granted: the state is another than the rows' then.

    Args:
        max_bypass: see `fairness`.
        may_run: those of owners that hold nothing are dropped.
    Raises: DamagedFile: two owners hold what only one can; `where` is the place of the second, as `$[0][3]`.
    """
    table = LockTable()
    for index, (owner, modes) in enumerate(rows.held.values()):
        try:
            table = _with_owner(table, owner, [LockRequest(lock, mode) for lock, mode in modes.items()])
        except GantryError as error:
            raise _damaged(f"$[0][{index}]", error.message) from error
    for owner, _ in may_run:
        if not table.modes_of(owner):
            may_run = may_run.without(owner)
    return _with_pending(LockState.fair(max_bypass).with_table(table).with_may_run(may_run), rows.requests())


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


# The journal of the locks as bytes: what has changed since `locks.data` was last written whole.
#
# Theory. The journal is lines of ASCII: eight hexadecimal digits, a blank, compact JSON. The digits are the
# CRC-32 of the JSON, continued from the line before; so a line counts only in its place, behind the very
# lines it was written behind. The first line is the header, `{"snapshot": SHA-256, "journal": 1}`: the digest of
# the `locks.data` that the others continue. Each other line is one write of the daemon, of all that changed in it:
# `[held, queued, gone]`
#
# * held: `[owner, [[lock, mode], ...]]`, `release` for a lock given back; null in place of the list: all were
# * queued: a row of `locks.data`, `[priority, owner, [[lock, mode], ...]]`; in place of any older one of that owner
# * gone: the owners whose requests are pending no longer
#
# or, before `locks.data` is replaced by a whole one, `{"next": SHA-256}` of that. What follows the last line is zeros.
#
# A write that was not finished, so that no client was told of it, is one line that does not count, and nothing
# behind it: it is dropped. A line that does not count with anything but zeros behind it is damage, since a
# line is written only when the one before is durable.
#
# A journal whose header names another file than `locks.data` is *outdated* if one of its lines names that as the
# next, or if it has no lines. Otherwise another program has written `locks.data`, and it is not ours to
# decide which of the two is right.
#
# Source: DESIGN section 3, invariant 3.


_VERSION: Final = 1
_CRC_DIGITS: Final = 8


@attrs.frozen
class Replayed:
    """What became of a journal that was read."""

    # it continues the `locks.data` it was read with; otherwise it is outdated
    is_current: bool
    # bytes of all lines that count, and the CRC to continue from
    size: int
    crc: int
    # lines that count, without the header
    lines: int


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def encode_header(snapshot: str) -> tuple[bytes, int]:
    """The first line of a journal that continues the `locks.data` of this digest, and its CRC."""
    return encode_line(ascii_json({"snapshot": snapshot, "journal": _VERSION}), 0)


def encode_line(text: bytes, crc: int) -> tuple[bytes, int]:
    """The line behind the one with this CRC, and its own."""
    crc = zlib.crc32(text, crc)
    return b"%08x %b\n" % (crc, text), crc


def encode_next(snapshot: str) -> bytes:
    """The text of a line that names the digest of the `locks.data` that will be next."""
    return ascii_json({"next": snapshot})


def encode_changes(before: LockState, after: LockState, made: Iterable[tuple[Owner, LockChange]]) -> bytes:
    """The text of a line that leads from one state to the other.

    Args:
        made: the calls in between: the owner that called, and what the call did.
    Cost: O(locks and requests touched); an owner that has given all back is one entry.
    """
    touched: dict[Owner, dict[Lock, None]] = {}
    concerned: dict[Owner, None] = {}
    for owner, change in made:
        concerned[owner] = None
        concerned.update(dict.fromkeys(change.granted))
        for move in change.moves:
            touched.setdefault(move.owner, {}).update(dict.fromkeys(move.modes))
    held = [_held_row(after, owner, locks) for owner, locks in touched.items()]
    pending = [(owner, after.pending_of(owner)) for owner in concerned]
    changed = [(owner, request) for owner, request in pending if request is not before.pending_of(owner)]
    queued = [orjson.Fragment(request.row) for _, request in changed if request]
    return ascii_json([held, queued, [owner.to_wire() for owner, request in changed if request is None]])


def _held_row(state: LockState, owner: Owner, locks: Iterable[Lock]) -> list[object]:
    modes = state.table.modes_of(owner)
    owned = [LockRequest(lock, modes.get(lock)).to_wire() for lock in locks] if modes else None
    return [state.table.as_known(owner).to_wire(), owned]


def replay(content: bytes, snapshot: bytes, rows: LockRows) -> Replayed:
    """Carry out a journal on the rows of the `locks.data` it was found with, if it continues that.

    Raises: DamagedFile: it is no journal, or was changed; or it continues another `locks.data`. `where` is the
        place: `line 7, byte 513`.
    """
    lines = _Lines(content)
    header = next(lines, None)
    if header is None:
        if content.strip(b"\0"):
            raise _damaged_line(1, 0, "it does not begin as a journal of locks does")
        return Replayed(False, 0, 0, 0)
    this = digest(snapshot)
    if _snapshot_of(header) != this:
        return _outdated(list(lines), this, lines)
    count = 0
    for count, text in enumerate(lines, 1):  # noqa: B007
        _carry_out(text, rows, lines)
    return Replayed(True, lines.end, lines.crc, count)


def _snapshot_of(header: object) -> str:
    match header:
        case {"snapshot": str() as snapshot, "journal": int() as version} if version == _VERSION:
            return snapshot
        case _:
            raise _damaged_line(1, 0, f"expected a journal of version {_VERSION}, got {header!r:.80}")


def _outdated(texts: list[object], this: str, lines: "_Lines") -> Replayed:
    if texts and {"next": this} not in texts:
        raise DamagedFile(
            f"it continues another locks.data than this one, by {len(texts)} lines; one of them was edited or restored",
            where="line 1, byte 0",
        )
    return Replayed(False, lines.end, lines.crc, len(texts))


class _Lines(Iterator[object]):
    """The values of all lines that count."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._size = len(content.rstrip(b"\0"))
        # of what was read so far
        self.end = 0
        self.crc = 0
        self.number = 0

    def __next__(self) -> object:
        begin, after = self.end, self._content.find(b"\n", self.end) + 1
        line = self._content[begin:after]
        text = line[_CRC_DIGITS + 1 : -1]
        crc = zlib.crc32(text, self.crc)
        if not after or line[: _CRC_DIGITS + 1] != b"%08x " % crc:
            if after and after < self._size:
                raise _damaged_line(self.number + 1, begin, "the line is not as it was written")
            raise StopIteration
        self.end, self.crc, self.number = after, crc, self.number + 1
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise _damaged_line(self.number, begin, error.msg) from error


def _carry_out(value: object, rows: LockRows, lines: _Lines) -> None:
    try:
        match value:
            case [list() as held, list() as queued, list() as gone]:
                for owner, owned in held:
                    _hold(rows, Owner.from_wire(owner), owned)
                for row in queued:
                    request = read_pending(row)
                    rows.pending[request.owner] = [request]
                for owner in gone:
                    rows.pending.pop(Owner.from_wire(owner), None)
            case {"next": str()}:
                # it never came
                pass
            case _:
                raise InvalidRequest(f"expected what was changed, got {value!r:.80}")
    except (InvalidRequest, ValueError, TypeError) as error:
        raise _damaged_line(lines.number, lines.end, str(error)) from error


def _hold(rows: LockRows, owner: Owner, owned: list[object] | None) -> None:
    _, modes = rows.held.pop(owner, (owner, {}))
    if owned is None:
        return
    for request in map(LockRequest.from_wire, owned):
        if request.mode is None:
            modes.pop(request.lock, None)
        else:
            modes[request.lock] = request.mode
    if modes:
        rows.held[owner] = (owner, modes)


def _damaged_line(line: int, byte: int, what: str) -> DamagedFile:
    where = f"line {line}, byte {byte}"
    return DamagedFile(f"the journal of the locks is damaged at {where}: {what}", where=where)

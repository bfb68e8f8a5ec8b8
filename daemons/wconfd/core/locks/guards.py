"""Guards: which owners have commands that may run on nodes, and which of these owners are ghosts.

A value. Invariant between calls: an owner with guards holds locks, and has at least one guard. So the guards
of a living owner last until it holds nothing any more, however it has released its locks; a release of some of
them leaves the guards, which protect the others.

The theory is in `protocol.wconfd.locks`.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import attrs
import orjson
from immutables import Map

from common.errors import DamagedFile, InvalidRequest
from common.jsontext import ascii_json
from common.locks import Owner
from protocol.wconfd.locks import Guard


@attrs.frozen
class Guarded:
    """The guards of one owner."""

    # sorted, each once; at least one
    guards: tuple[Guard, ...]
    # its death, in seconds since 1970; None: it lives, or is not known to be dead
    since: float | None = None

    @property
    def is_ghost(self) -> bool:
        return self.since is not None

    def with_guards(self, guards: Iterable[Guard]) -> "Guarded":
        return Guarded(tuple(sorted({*self.guards, *guards}, key=_place)), self.since)

    def without_keys(self, keys: Collection[str]) -> tuple[Guard, ...]:
        """The guards that are left when these keys are laid."""
        return tuple(guard for guard in self.guards if guard.key not in keys)


_NO_OWNERS: Final[Map[Owner, Guarded]] = Map()


@attrs.frozen
class Guards:
    """The guards of all owners. Start from `NO_GUARDS`."""

    _owners: Map[Owner, Guarded] = _NO_OWNERS
    # derived: the owners that are ghosts
    ghosts: frozenset[Owner] = attrs.field(default=frozenset(), eq=False, repr=False)

    def __len__(self) -> int:
        """Number of owners with guards."""
        return len(self._owners)

    def __iter__(self) -> Iterator[tuple[Owner, Guarded]]:
        """All owners, in owner order."""
        return iter(sorted(self._owners.items(), key=lambda row: row[0].sort_key()))

    def __contains__(self, owner: Owner) -> bool:
        return owner in self._owners

    def of(self, owner: Owner) -> Guarded | None:
        """None: it has no guards."""
        return self._owners.get(owner)

    def keys(self) -> frozenset[str]:
        """The keys of all guards."""
        return frozenset(guard.key for guarded in self._owners.values() for guard in guarded.guards)

    def set(self, owner: Owner, guarded: Guarded) -> "Guards":
        """With these guards in place of the owner's; the very same if they are its guards already."""
        if self._owners.get(owner) == guarded:
            return self
        ghosts = self.ghosts | {owner} if guarded.is_ghost else self.ghosts - {owner}
        return Guards(self._owners.set(owner, guarded), ghosts)

    def without(self, owner: Owner) -> "Guards":
        """The very same if the owner has none."""
        if owner not in self._owners:
            return self
        return Guards(self._owners.delete(owner), self.ghosts - {owner})

    def with_others_of(self, earlier: "Guards") -> "Guards":
        """With the guards that others had earlier and that have none now; the very same if there are no such."""
        both = self
        for owner, guarded in earlier._owners.items():
            if owner not in self._owners:
                both = both.set(owner, guarded)
        return both


NO_GUARDS: Final = Guards()


def _place(guard: Guard) -> tuple[str, str]:
    return (guard.node, guard.key)


# Guards as the bytes of `ghosts.data`, and back: `{"guarded": [[owner, [[node, key], ...], since or null], ...]}`.
#
# Source: `protocol.wconfd.locks`.


_KEY: Final = "guarded"


def encode_guards(guards: Guards) -> bytes:
    """Compact JSON in pure ASCII, in owner order. Cost: O(guards)."""
    return ascii_json({_KEY: [_row(owner, guarded) for owner, guarded in guards]})


def decode_guards(content: bytes) -> Guards:
    """Rebuild the guards that were encoded.

    Raises: DamagedFile: it is something else; `where` is the place: `byte 17`, or `$.guarded[3]` for the fourth owner.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _damaged(f"byte {len(error.doc[: error.pos].encode())}", error.msg) from error
    match value:
        case {"guarded": list() as rows} if len(value) == 1:
            return _read(rows)
        case _:
            raise _damaged("$", f"expected an object with the key {_KEY}")


def _row(owner: Owner, guarded: Guarded) -> list[object]:
    return [owner.to_wire(), [[each.node, each.key] for each in guarded.guards], guarded.since]


def _read(rows: list[object]) -> Guards:
    guards = NO_GUARDS
    for index, row in enumerate(rows):
        try:
            owner, guarded = _read_row(row)
        except InvalidRequest as error:
            raise _damaged(f"$.{_KEY}[{index}]", error.message) from error
        if owner in guards:
            raise _damaged(f"$.{_KEY}[{index}]", f"owner {owner} is listed twice")
        guards = guards.set(owner, guarded)
    return guards


def _read_row(row: object) -> tuple[Owner, Guarded]:
    match row:
        case [owner, [_, *_] as guards, (None | int() | float()) as since] if not isinstance(since, bool):
            at = None if since is None else float(since)
            return Owner.from_wire(owner), Guarded((), at).with_guards(map(_read_guard, guards))
        case _:
            raise InvalidRequest(f"expected an owner, its guards, at least one, and its death or null; got {row!r}")


def _read_guard(value: object) -> Guard:
    match value:
        case [str() as node, str() as key]:
            return Guard(node, key)
        case _:
            raise InvalidRequest(f"expected [node, key], got {value!r}")


def _damaged(where: str, what: str) -> DamagedFile:
    return DamagedFile(f"the guards of locks are damaged at {where}: {what}", where=where)

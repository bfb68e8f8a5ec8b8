"""Guards as the bytes of `ghosts.data`, and back: `{"guarded": [[owner, [[node, key], ...], since or null], ...]}`.

Source: `protocol.wconfd.ghosts`.
"""

from typing import Final

import orjson

from common.asciijson import ascii_json
from common.errors import DamagedFile, InvalidRequest
from common.locks import Owner
from daemons.wconfd.core.locks.guards import NO_GUARDS, Guarded, Guards
from protocol.wconfd.ghosts import Guard

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

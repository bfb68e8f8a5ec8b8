"""The reservations as the bytes of `tempres.data`, and back.

Every table is a list of pairs; an owner that has reserved nothing of a kind is not in its list.

Source: wconfd.md 6.2.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import orjson
from immutables import Map

from common.asciijson import ascii_json
from common.errors import DamagedFile, GantryError, InvalidRequest
from common.locks import Owner
from common.objects.kinds import DiskUuid, NetworkUuid, NodeUuid
from daemons.wconfd.core.reservations.claims import Claims
from daemons.wconfd.core.reservations.ipnotes import IpAction, IpNote, read_address
from daemons.wconfd.core.reservations.temporary import Minors, Reservations

R = TypeVar("R")

# names of the tables, with the capitals of the file
_MINORS: Final = "dRBD"
_KEYS: Final[Mapping[str, str]] = {"macs": "mACs", "secrets": "dRBDSecrets", "volumes": "lVs", "ips": "iPv4s"}


def encode(state: Reservations) -> bytes:
    """Compact JSON in pure ASCII. Cost: O(reservations)."""
    minors = [[node, sorted(map(list, taken.items()))] for node, taken in sorted(state.minors.items())]
    notes = [[owner.to_wire(), [_to_wire(note) for note in in_order(notes)]] for owner, notes in state.ips.rows()]
    value = {
        _MINORS: minors,
        **{_KEYS[name]: _rows(getattr(state, name)) for name in ("macs", "secrets", "volumes")},
        _KEYS["ips"]: notes,
    }
    return ascii_json(value)


def in_order(notes: frozenset[IpNote]) -> list[IpNote]:
    """As they are stored and shown: what is to be taken first, then by network and address."""
    return sorted(notes, key=IpNote.sort_key)


def decode(content: bytes) -> Reservations:
    """Rebuild the reservations that were encoded.

    Raises: DamagedFile: not such a file, or a thing is reserved twice; `where` is the place:
        `byte 17`, or `$.mACs[3]` for the fourth owner of MACs.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _damaged(f"byte {len(error.doc[: error.pos].encode())}", error.msg) from error
    keys = {_MINORS, *_KEYS.values()}
    if not isinstance(value, dict) or value.keys() != keys:
        raise _damaged("$", f"expected an object with the keys {', '.join(sorted(keys))}")
    return Reservations(
        macs=_claims(value, "macs", lambda text: _text(text).lower()),
        secrets=_claims(value, "secrets", _text),
        volumes=_claims(value, "volumes", _text),
        ips=_claims(value, "ips", _from_wire),
        minors=_minors(value[_MINORS]),
    )


def _rows(claims: Claims[str]) -> list[object]:
    return [[owner.to_wire(), sorted(resources)] for owner, resources in claims.rows()]


def _to_wire(note: IpNote) -> list[str]:
    return [note.action.value, note.address, note.network]


def _claims(value: Mapping[str, object], name: str, read: Callable[[object], R]) -> Claims[R]:
    key = _KEYS[name]
    claims = Claims[R]()
    for index, row in enumerate(_list(value[key], f"$.{key}")):
        try:
            claims = _with_row(claims, row, read)
        except GantryError as error:
            raise _damaged(f"$.{key}[{index}]", error.message) from error
    return claims


def _with_row(claims: Claims[R], row: object, read: Callable[[object], R]) -> Claims[R]:
    match row:
        case [wire_owner, [_, *_] as resources]:
            owner = Owner.from_wire(wire_owner)
        case _:
            raise InvalidRequest(f"expected an owner and its reservations, at least one; got {row!r}")
    if claims.of(owner):
        raise InvalidRequest(f"owner {owner} is listed twice")
    for resource in resources:
        claims = claims.with_claim(owner, read(resource))
    return claims


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"expected text, got {value!r}")
    return value


def _from_wire(value: object) -> IpNote:
    match value:
        case ["reserve" | "release" as action, str() as address, str() as network]:
            return IpNote(IpAction(action), NetworkUuid(network), read_address(address))
        case _:
            raise InvalidRequest(f"expected ['reserve' or 'release', address, network], got {value!r}")


def _minors(rows: object) -> Minors:
    minors: Minors = Map()
    for index, row in enumerate(_list(rows, f"$.{_MINORS}")):
        where = f"$.{_MINORS}[{index}]"
        match row:
            case [str() as node, list() as pairs] if node not in minors:
                if pairs:
                    minors = minors.set(NodeUuid(node), _read_pairs(pairs, where))
            case _:
                raise _damaged(where, f"expected a node, not listed before, and its minors; got {row!r}")
    return minors


def _read_pairs(pairs: list[object], where: str) -> Map[int, DiskUuid]:
    taken: Map[int, DiskUuid] = Map()
    for index, pair in enumerate(pairs):
        match pair:
            case [int() as minor, str() as disk] if not isinstance(minor, bool) and minor >= 0 and minor not in taken:
                taken = taken.set(minor, DiskUuid(disk))
            case _:
                raise _damaged(
                    f"{where}[1][{index}]", f"expected a minor, not listed before, and its disk; got {pair!r}"
                )
    return taken


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise _damaged(where, f"expected a list, got {value!r}")
    return value


def _damaged(where: str, what: str) -> DamagedFile:
    return DamagedFile(f"the reservations are damaged at {where}: {what}", where=where)

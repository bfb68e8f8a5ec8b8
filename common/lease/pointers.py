"""The values of replicated keys as they are stored: themselves, or a pointer into the parts of a large change.

Theory. A zero byte at the beginning tells them apart: after it comes a pointer, or another zero byte and then the rest
of a value that begins with one itself. Nothing that we replicate begins so today, so values are stored as they are.

Source: DESIGN section 14; common/lease/packing.py.
"""

from collections.abc import Mapping
from typing import Final

import attrs
import orjson

from common.errors import DamagedFile, GantryError
from common.shapes import Lenient
from common.wire import structure, unstructure

_MARK: Final = b"\0"


@attrs.frozen(kw_only=True)
class Pointer(Lenient):
    """Where the value of a key is."""

    # the beginning of the keys of the parts
    folder: str
    # bytes of all parts before it
    at: int
    # bytes
    size: int


def encode_value(value: bytes) -> bytes:
    return _MARK + value if value[:1] == _MARK else value


def encode_pointer(pointer: Pointer) -> bytes:
    return _MARK + orjson.dumps(unstructure(pointer))


def decode_stored(key: str, stored: bytes) -> bytes | Pointer:
    """Return the value, or where it is. Raises: DamagedFile: it is neither; with the key."""
    if stored[:1] != _MARK:
        return stored
    if stored[1:2] == _MARK:
        return stored[1:]
    try:
        return structure(orjson.loads(stored[1:]), Pointer, key)
    except (orjson.JSONDecodeError, GantryError) as error:
        raise DamagedFile(
            f"the key '{key}' of etcd has a value that is not ours: {error}; remove it", key=key
        ) from error


def follow(key: str, pointer: Pointer, streams: Mapping[str, bytes]) -> bytes:
    """Return the value of a key.

    Args: streams: of each folder, its parts one after the other, without the list of keys.
    Raises: DamagedFile: parts are missing; with the key.
    """
    value = streams.get(pointer.folder, b"")[pointer.at : pointer.at + pointer.size]
    if len(value) != pointer.size:
        raise DamagedFile(
            f"the key '{key}' of etcd has {pointer.size} bytes in '{pointer.folder}', of which {len(value)} are there; "
            "remove it, or restore etcd",
            key=key,
        )
    return value

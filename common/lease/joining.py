"""What is stored in etcd as the values that were committed: parts are joined, the rest is as it is.

Source: DESIGN section 14; common/lease/packing.py.
"""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from common.lease.packing import folder_of, part_key
from common.lease.pointers import Pointer, decode_stored, follow


@attrs.frozen
class Stored:
    """A key of etcd as it is stored."""

    key: str
    value: bytes
    # at which it was put
    revision: int


@attrs.frozen
class Entry:
    """What was committed last for a key."""

    value: bytes
    # of the transaction that committed it
    revision: int


@attrs.frozen
class Dirty:
    """All that was committed under some prefixes."""

    # of etcd, at which this was so
    revision: int
    # by key; in the order of their revisions, keys of one revision in the order of their names
    entries: Mapping[str, Entry]


def folders_of(stored: Iterable[Stored]) -> frozenset[str]:
    """Return the folders of parts that are needed to join these. Raises: DamagedFile."""
    found = (decode_stored(each.key, each.value) for each in stored)
    return frozenset(each.folder for each in found if isinstance(each, Pointer))


def join(stored: Sequence[Stored], parts: Sequence[Stored], revision: int) -> Dirty:
    """Return the values. Args: parts: of all folders that are needed. Raises: DamagedFile: one is not ours."""
    streams = _streams(parts)
    entries = {}
    for each in sorted(stored, key=lambda each: (each.revision, each.key)):
        found = decode_stored(each.key, each.value)
        value = follow(each.key, found, streams) if isinstance(found, Pointer) else found
        entries[each.key] = Entry(value, each.revision)
    return Dirty(revision, entries)


def _streams(parts: Sequence[Stored]) -> Mapping[str, bytes]:
    pieces: dict[str, list[bytes]] = {}
    for part in sorted(parts, key=lambda part: part.key):
        folder = folder_of(part.key)
        if part.key != part_key(folder, 0):
            pieces.setdefault(folder, []).append(part.value)
    return {folder: b"".join(each) for folder, each in pieces.items()}

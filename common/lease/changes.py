"""Changes of files and objects as they lie in etcd, and how they become transactions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs
import orjson

from common.errors import DamagedFile, GantryError, InvalidRequest
from common.shapes import Lenient
from common.wire import structure, unstructure

# The values of changed files in etcd: what a candidate must do to have the same.
#
# Theory. The key of a change names a file below the folder of data, so a later change of the file replaces an earlier
# one, and what is in etcd is bounded by the files that some candidate lacks. The first byte of a value says what became
# of the file.
#
# Source: DESIGN section 14.


_WRITTEN: Final = b"="
_REMOVED: Final = b"-"
_ARCHIVED: Final = b">"


@attrs.frozen
class WrittenFile:
    """The file has this content."""

    content: bytes


@attrs.frozen
class RemovedFile:
    """There is no such file, whether live or archived."""


@attrs.frozen
class ArchivedFile:
    """The file of a live job was moved to the archive."""

    # None: all candidates have it as that of a live job
    content: bytes | None = None


Fate = WrittenFile | RemovedFile | ArchivedFile


@attrs.frozen
class KeyChange:
    """A change of one key. Args: value: None: the key is removed."""

    key: str
    value: bytes | None

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.key) + len(self.value or b"")


def encode_fate(fate: Fate) -> bytes:
    match fate:
        case WrittenFile(content):
            return _WRITTEN + content
        case RemovedFile():
            return _REMOVED
        case ArchivedFile(content):
            return _ARCHIVED if content is None else _ARCHIVED + _WRITTEN + content
        case _:
            assert_never(fate)


def decode_fate(key: str, value: bytes) -> Fate:
    """Raises: DamagedFile: the value is not ours; with the key."""
    mark, rest = value[:1], value[1:]
    if mark == _WRITTEN:
        return WrittenFile(rest)
    if mark == _REMOVED and not rest:
        return RemovedFile()
    if mark == _ARCHIVED and (not rest or rest[:1] == _WRITTEN):
        return ArchivedFile(rest[1:] if rest else None)
    raise DamagedFile(f"the key '{key}' of etcd has a value that is not ours: {value[:20]!r}; remove it", key=key)


# The values of replicated keys as they are stored: themselves, or a pointer into the parts of a large change.
#
# Theory. A zero byte at the beginning tells them apart: after it comes a pointer, or another zero byte and then the
# rest of a value that begins with one itself. Nothing that we replicate begins so today, so values are stored as they
# are.
#
# Source: DESIGN section 14.


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


# How changes become transactions: which go together, and how one that is too large for a transaction is split.
#
# Theory. etcd takes 1.5 MiB in a request, and 128 operations at each level of a transaction. Changes that wait at the
# same time share a transaction as long as they fit together; only the last change of each key is put. A change beyond
# the bound is written as parts first: its larger values, one after the other, cut into pieces. Its last transaction
# puts a pointer into the parts for each of these values, and the small values as they are. So
# such a change, too, counts as a whole at the revision of one transaction; each of its keys is replaced and forgotten
# like any other; and parts are garbage when no pointer leads to them. The first part is a list of the keys, so that
# garbage is found without reading all that is stored.
#
# Considered and rejected: a record of the change in place of pointers. A key that is changed later by itself would have
# to be kept until the whole of the large change is forgotten, or its old value would come back.
#
# Source: DESIGN section 14; lease.md 4.


# operations of one transaction of several changes
MOST_OPERATIONS: Final = 100
# keys of one change
MOST_KEYS: Final = 3_000
# bytes of keys and values in one transaction; base64 makes a third more of them on the way
MOST_BYTES: Final = 2**20
# bytes of one value
MOST_VALUE: Final = 8 * 2**20
# bytes of one change
MOST_CHANGE: Final = 64 * 2**20
# bytes of one part
PART_BYTES: Final = 2**19
# bytes; a shorter value of a large change needs no pointer
SHORT: Final = 128


@attrs.frozen
class Packed:
    """A large change."""

    # the beginning of the keys of its parts
    folder: str
    # to be put first, in this order
    parts: Sequence[KeyChange]
    # what commits it: one transaction
    last: Sequence[KeyChange]
    # those whose values are in the parts
    pointing: frozenset[str]


def check_change(changes: Sequence[KeyChange]) -> None:
    """Raises: InvalidRequest: it is beyond the bounds; with key and number."""
    for change in changes:
        if len(change.value or b"") > MOST_VALUE:
            raise InvalidRequest(
                f"'{change.key}' has {len(change.value or b'')} bytes; at most {MOST_VALUE} can be replicated through "
                "etcd",
                key=change.key,
            )
    if len(changes) > MOST_KEYS:
        raise InvalidRequest(f"one change has {len(changes)} files; at most {MOST_KEYS} can be replicated through etcd")
    if (size := size_of(changes)) > MOST_CHANGE:
        raise InvalidRequest(f"one change has {size} bytes; at most {MOST_CHANGE} can be replicated through etcd")


def size_of(changes: Iterable[KeyChange]) -> int:
    """Bytes."""
    return sum(change.size for change in changes)


def is_large(changes: Sequence[KeyChange]) -> bool:
    """Whether it is too large for one transaction."""
    return size_of(changes) > MOST_BYTES


def group_length(waiting: Sequence[Sequence[KeyChange]]) -> int:
    """Return how many of the changes that wait longest go into one transaction; a large one goes alone."""
    count = operations = size = 0
    for changes in waiting:
        operations += len(changes)
        size += size_of(changes)
        if count and (operations > MOST_OPERATIONS or size > MOST_BYTES):
            break
        count += 1
    return count


def divided(changes: Sequence[KeyChange]) -> Iterator[Sequence[KeyChange]]:
    """These changes in their order, in groups of which each fits into one transaction; a large one goes alone."""
    left = [[change] for change in changes]
    while left:
        count = group_length(left)
        yield [change for (change,) in left[:count]]
        left = left[count:]


def merged(changes: Iterable[KeyChange]) -> Sequence[KeyChange]:
    """The last change of each key: etcd refuses a transaction that puts a key twice."""
    return list({change.key: change for change in changes}.values())


def stored(changes: Iterable[KeyChange]) -> Sequence[KeyChange]:
    """These changes with their values as they are put."""
    return [
        change if change.value is None else attrs.evolve(change, value=encode_value(change.value)) for change in changes
    ]


def pack(changes: Sequence[KeyChange], folder: str) -> Packed:
    """Split a change, merged before, so that its last transaction is small. Args: folder: of no other change."""
    last: list[KeyChange] = []
    pointed: list[KeyChange] = []
    stream = bytearray()
    for change in changes:
        if change.value is None or len(change.value) <= SHORT:
            last += stored([change])
            continue
        pointer = Pointer(folder=folder, at=len(stream), size=len(change.value))
        last.append(attrs.evolve(change, value=encode_pointer(pointer)))
        pointed.append(change)
        stream += change.value
    pointing = [change.key for change in pointed]
    pieces = [bytes(stream[at : at + PART_BYTES]) for at in range(0, len(stream), PART_BYTES)]
    values = [encode_list(pointing), *pieces]
    parts = [KeyChange(part_key(folder, number), value) for number, value in enumerate(values)]
    return Packed(folder, parts, last, frozenset(pointing))


def part_key(folder: str, number: int) -> str:
    """The key of a part; their order is that of the numbers. Number 0 is the list of keys."""
    return f"{folder}{number:06}"


def folder_of(part: str) -> str:
    """The folder of a part with this key."""
    return part.rpartition("/")[0] + "/"


def encode_list(keys: Sequence[str]) -> bytes:
    return orjson.dumps(keys)


def decode_list(part: str, value: bytes) -> Sequence[str]:
    """Return the keys whose values are in the parts. Raises: DamagedFile: the part is not a list; with its key."""
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise DamagedFile(f"the key '{part}' of etcd is not a list of keys: {error}; remove it", key=part) from error
    if not isinstance(found, list) or not all(isinstance(key, str) for key in found):
        raise DamagedFile(f"the key '{part}' of etcd is not a list of keys: {value[:20]!r}; remove it", key=part)
    return found


# What is stored in etcd as the values that were committed: parts are joined, the rest is as it is.
#
# Source: DESIGN section 14.


@attrs.frozen
class Stored:
    """A key of etcd as it is stored."""

    key: str
    value: bytes
    # at which it was put
    revision: int


@attrs.frozen
class CommittedEntry:
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
    entries: Mapping[str, CommittedEntry]


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
        entries[each.key] = CommittedEntry(value, each.revision)
    return Dirty(revision, entries)


def _streams(parts: Sequence[Stored]) -> Mapping[str, bytes]:
    pieces: dict[str, list[bytes]] = {}
    for part in sorted(parts, key=lambda part: part.key):
        folder = folder_of(part.key)
        if part.key != part_key(folder, 0):
            pieces.setdefault(folder, []).append(part.value)
    return {folder: b"".join(each) for folder, each in pieces.items()}

"""How changes become transactions: which go together, and how one that is too large for a transaction is split.

Theory. etcd takes 1.5 MiB in a request, and 128 operations at each level of a transaction. Changes that wait at the
same time share a transaction as long as they fit together; only the last change of each key is put. A change beyond
the bound is written as parts first: its larger values, one after the other, cut into pieces. Its last transaction puts
a pointer into the parts for each of these values (`common.lease.pointers`), and the small values as they are. So such a
change, too, counts as a whole at the revision of one transaction; each of its keys is replaced and forgotten like any
other; and parts are garbage when no pointer leads to them. The first part is a list of the keys, so that garbage is
found without reading all that is stored.

Considered and rejected: a record of the change in place of pointers. A key that is changed later by itself would have
to be kept until the whole of the large change is forgotten, or its old value would come back.

Source: DESIGN section 14; lease.md 4.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs
import orjson

from common.errors import DamagedFile, InvalidRequest
from common.lease.dirty import Change
from common.lease.pointers import Pointer, encode_pointer, encode_value

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
    parts: Sequence[Change]
    # what commits it: one transaction
    last: Sequence[Change]
    # those whose values are in the parts
    pointing: frozenset[str]


def check_change(changes: Sequence[Change]) -> None:
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


def size_of(changes: Iterable[Change]) -> int:
    """Bytes."""
    return sum(change.size for change in changes)


def is_large(changes: Sequence[Change]) -> bool:
    """Whether it is too large for one transaction."""
    return size_of(changes) > MOST_BYTES


def group_length(waiting: Sequence[Sequence[Change]]) -> int:
    """Return how many of the changes that wait longest go into one transaction; a large one goes alone."""
    count = operations = size = 0
    for changes in waiting:
        operations += len(changes)
        size += size_of(changes)
        if count and (operations > MOST_OPERATIONS or size > MOST_BYTES):
            break
        count += 1
    return count


def divided(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """These changes in their order, in groups of which each fits into one transaction; a large one goes alone."""
    left = [[change] for change in changes]
    while left:
        count = group_length(left)
        yield [change for (change,) in left[:count]]
        left = left[count:]


def merged(changes: Iterable[Change]) -> Sequence[Change]:
    """The last change of each key: etcd refuses a transaction that puts a key twice."""
    return list({change.key: change for change in changes}.values())


def stored(changes: Iterable[Change]) -> Sequence[Change]:
    """These changes with their values as they are put."""
    return [
        change if change.value is None else attrs.evolve(change, value=encode_value(change.value)) for change in changes
    ]


def pack(changes: Sequence[Change], folder: str) -> Packed:
    """Split a change, merged before, so that its last transaction is small. Args: folder: of no other change."""
    last: list[Change] = []
    pointed: list[Change] = []
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
    parts = [Change(part_key(folder, number), value) for number, value in enumerate(values)]
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

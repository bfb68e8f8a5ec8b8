"""What many files are to be, in parts of which each is one change in etcd. Pure.

Source: DESIGN section 14; common/lease/packing.py.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from common.lease.dirty import Fate, Removed
from daemons.luxid.core.copies.backlog import Key

# files of one change; with the notes of their jobs they are less than etcd's bound
MOST_FILES: Final = 200
# bytes of one change of several files, half of what etcd takes
PART_BYTES: Final = 32 * 2**20


def in_parts(fates: Mapping[Key, Fate]) -> Iterator[dict[Key, Fate]]:
    """The parts, in order; one of a single file may have more bytes."""
    part: dict[Key, Fate] = {}
    size = 0
    for key, fate in fates.items():
        its_size = _size(fate)
        if part and (len(part) == MOST_FILES or size + its_size > PART_BYTES):
            yield part
            part, size = {}, 0
        part[key] = fate
        size += its_size
    if part:
        yield part


def _size(fate: Fate) -> int:
    return 0 if isinstance(fate, Removed) else len(fate.content or b"")

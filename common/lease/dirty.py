"""The values of changed files in etcd: what a candidate must do to have the same.

Theory. The key of a change names a file below the folder of data, so a later change of the file replaces an earlier
one, and what is in etcd is bounded by the files that some candidate lacks. The first byte of a value says what became
of the file.

Source: DESIGN section 14.
"""

from typing import Final, assert_never

import attrs

from common.errors import DamagedFile

_WRITTEN: Final = b"="
_REMOVED: Final = b"-"
_ARCHIVED: Final = b">"


@attrs.frozen
class Written:
    """The file has this content."""

    content: bytes


@attrs.frozen
class Removed:
    """There is no such file, whether live or archived."""


@attrs.frozen
class Archived:
    """The file of a live job was moved to the archive."""

    # None: all candidates have it as that of a live job
    content: bytes | None = None


Fate = Written | Removed | Archived


@attrs.frozen
class Change:
    """A change of one key. Args: value: None: the key is removed."""

    key: str
    value: bytes | None

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.key) + len(self.value or b"")


def encode_fate(fate: Fate) -> bytes:
    match fate:
        case Written(content):
            return _WRITTEN + content
        case Removed():
            return _REMOVED
        case Archived(content):
            return _ARCHIVED if content is None else _ARCHIVED + _WRITTEN + content
        case _:
            assert_never(fate)


def decode_fate(key: str, value: bytes) -> Fate:
    """Raises: DamagedFile: the value is not ours; with the key."""
    mark, rest = value[:1], value[1:]
    if mark == _WRITTEN:
        return Written(rest)
    if mark == _REMOVED and not rest:
        return Removed()
    if mark == _ARCHIVED and (not rest or rest[:1] == _WRITTEN):
        return Archived(rest[1:] if rest else None)
    raise DamagedFile(f"the key '{key}' of etcd has a value that is not ours: {value[:20]!r}; remove it", key=key)

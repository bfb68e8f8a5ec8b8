"""The output of a command as its node keeps it: pieces of bounded size, read from any byte on.

Source: common/commands/output.py.
"""

import os
from pathlib import Path
from typing import Final

import attrs

from common.commands.output import pieces_of

OUTPUT: Final = "out"
ERRORS: Final = "err"
# the kernel refuses to read where no file can have a byte
_LONGEST_FILE: Final = 2**63 - 1


@attrs.frozen
class Spooled:
    """Bytes of a stream."""

    # bytes that the stream has had so far
    total: int
    # first byte of the content
    begin: int
    content: bytes


def read_spooled(folder: Path, name: str, offset: int, limit: int) -> Spooled:
    """Return the bytes at or after `offset`, at most `limit`; earlier ones may have been removed.

    Args: name: `OUTPUT` or `ERRORS`.
    Raises: OSError.
    """
    base = folder / name
    try:
        starts = pieces_of(base)
    except FileNotFoundError:
        starts = []
    if not starts:
        return Spooled(0, offset, b"")
    total = starts[-1] + _size(base, starts[-1])
    for index, start in enumerate(starts):
        next_start = starts[index + 1] if index + 1 < len(starts) else total
        if next_start <= offset:
            continue
        begin = max(start, offset)
        content = _read_at(base, start, begin - start, limit)
        if content:
            return Spooled(max(total, begin + len(content)), begin, content)
    return Spooled(total, offset, b"")


def _path(base: Path, start: int) -> str:
    return f"{base}.{start:020d}"


def _size(base: Path, start: int) -> int:
    try:
        return os.stat(_path(base, start)).st_size
    except FileNotFoundError:
        return 0


def _read_at(base: Path, start: int, offset: int, limit: int) -> bytes:
    try:
        fd = os.open(_path(base, start), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # removed since the folder was listed
        return b""
    try:
        return os.pread(fd, min(limit, _LONGEST_FILE - offset), offset)
    finally:
        os.close(fd)

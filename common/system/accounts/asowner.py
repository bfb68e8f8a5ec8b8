"""Root acts as the user of the daemons, so that what it makes is theirs, and nothing of theirs can lead it astray."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ROOT: Final = 0


@contextmanager
def as_owner_of(folder: Path) -> Iterator[None]:
    """As root: act as the folder's owner within the context. Nothing changes for other users, and without the folder.

    The whole process acts so, all its threads too. Raises: OSError.
    """
    owner = _other_owner(folder)
    if owner is None:
        yield
        return
    groups, gid = os.getgroups(), os.getegid()
    os.setgroups([])
    os.setegid(owner[1])
    os.seteuid(owner[0])
    try:
        yield
    finally:
        os.seteuid(_ROOT)
        os.setegid(gid)
        os.setgroups(groups)


@contextmanager
def as_root_again() -> Iterator[bool]:
    """Within `as_owner_of`: act as root for a moment. Returns: whether this is root now."""
    acting = os.geteuid()
    if os.getuid() != _ROOT or acting == _ROOT:
        yield acting == _ROOT
        return
    os.seteuid(_ROOT)
    try:
        yield True
    finally:
        os.seteuid(acting)


def _other_owner(folder: Path) -> tuple[int, int] | None:
    """User and group of a folder that is not root's; None: this is not root, or there is no such folder."""
    if os.geteuid() != _ROOT:
        return None
    try:
        status = folder.stat()
    except FileNotFoundError:
        return None
    return None if status.st_uid == _ROOT else (status.st_uid, status.st_gid)

"""Folders in which no other user can create or replace files: an installation uses only such folders.

Theory. A user who can write to a folder can plant a job file, a settings file or a link in it, and a user who can
write to a folder above it can put another folder in its place. So every part of the path counts, and every part of
the path behind each link. A part is trusted if it belongs to the daemons' user, to a user with all its rights, or to
root, and only its owner and the groups of the daemons can write to it. A folder of root with the sticky bit, such as
/tmp, may be writable by all: users can rename or remove only their own entries in it, and the next part has an owner,
too.
A link is judged only by its owner; its mode means nothing.

Source: DESIGN section 4; path_resolution(7).
"""

import os
import pwd
import stat
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final

from common.errors import Denied

# number of links that the kernel follows in one path
_LINKS: Final = 40


def check_trusted(path: Path, gids: Set[int] = frozenset(), uids: Set[int] = frozenset()) -> None:
    """Refuse a path that another user could have made, or could replace.

    Missing parts are skipped: the process that makes them will own them.

    Args:
        path: absolute; a folder or a file.
        gids: groups whose members may write, beside our own.
        uids: users to whom parts may belong, beside root and ourselves.
    Raises:
        Denied: a part is not trusted; the message names it, and what to do.
        OSError: a part cannot be looked at.
    """
    trusted_uids, trusted_gids = {0, os.geteuid(), *uids}, {os.getegid(), *gids}
    for part, status in _parts(path):
        if (reason := _distrust(status, trusted_uids, trusted_gids)) is not None:
            raise Denied(
                f"'{path}' is not safe to use: '{part}' {reason}; take that away, or use a folder of your own",
                path=str(part),
            )


def check_trusted_tree(folder: Path) -> None:
    """Refuse a folder if another user could have made, or could change, anything in it: what is in it is executed.

    Args: folder: absolute.
    Raises: as `check_trusted`.
    """
    check_trusted(folder)
    uids, gids = {0, os.geteuid()}, {os.getegid()}
    for place, folders, files in os.walk(folder, onerror=_raise):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                check_trusted(Path(path))
                continue
            reason = _distrust(status, uids, gids)
            if reason is None and status.st_mode & stat.S_IWOTH:
                # sticky: nobody replaces what is there, but anybody adds to it
                reason = "can be written by every user"
            if reason is not None:
                raise Denied(f"'{folder}' is not safe to use: '{path}' {reason}; take that away", path=path)


def _raise(error: OSError) -> None:
    raise error


def _distrust(status: os.stat_result, uids: Set[int], gids: Set[int]) -> str | None:
    """What is wrong with a part of a path; None: nothing is."""
    if status.st_uid not in uids:
        return f"belongs to {_user(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode):
        return None
    if status.st_uid == 0 and status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return "can be written by every user"
    if status.st_mode & stat.S_IWGRP and status.st_gid not in gids:
        return f"can be written by group {status.st_gid}"
    return None


def _user(uid: int) -> str:
    try:
        return f"user '{pwd.getpwuid(uid).pw_name}'"
    except KeyError:
        return f"user {uid}"


def _parts(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """All existing parts of a path, from the top; also links and the parts of their targets."""
    left = list(reversed(path.parts[1:]))
    place = "/"
    links = 0
    yield place, os.lstat(place)
    while left:
        name = left.pop()
        if name == "..":
            place = os.path.dirname(place)
            continue
        here = os.path.join(place, name)
        try:
            status = os.lstat(here)
        except FileNotFoundError:
            return
        yield here, status
        if not stat.S_ISLNK(status.st_mode):
            place = here
            continue
        links += 1
        if links > _LINKS:
            raise Denied(f"'{path}' is not safe to use: too many links", path=str(path))
        target = Path(os.readlink(here))
        if target.is_absolute():
            place = "/"
        left += reversed(target.parts[1:] if target.is_absolute() else target.parts)

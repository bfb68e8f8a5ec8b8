"""Folders that no other user can put files into, or replace: only such ones are an installation's.

Theory. Whoever may write to a folder may plant a job file, a settings file or a link in it, and whoever may write to
one above it may put another folder in its place. So every part of the path counts, and every part of the path
behind each link. A part is trusted if it belongs to us or to root, and if nobody can write to it but its owner and
the groups of the daemons. A folder of root with the sticky bit, such as /tmp, may be written by all: nobody
can rename or remove in it what is not his own, and the next part has an owner, too.

A link is judged by its owner alone; its mode says nothing.

Source: DESIGN section 4; path_resolution(7).
"""

import os
import pwd
import stat
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final

from common.errors import Denied

# as many links in one path as the kernel follows
_LINKS: Final = 40


def check_trusted(path: Path, gids: Set[int] = frozenset()) -> None:
    """Refuse a path that another user could have made, or could replace.

    Parts that do not exist are passed over: whoever makes them owns them.

    Args:
        path: absolute; a folder or a file.
        gids: groups whose members may write, beside our own.
    Raises:
        Denied: a part is not trusted; the message names it, and what to do.
        OSError: a part cannot be looked at.
    """
    trusted_gids = {os.getegid(), *gids}
    for part, status in _parts(path):
        if (reason := _distrust(status, trusted_gids)) is not None:
            raise Denied(
                f"'{path}' is not safe to use: '{part}' {reason}; take that away, or use a folder of your own",
                path=str(part),
            )


def _distrust(status: os.stat_result, gids: Set[int]) -> str | None:
    """What is wrong with a part of a path; None: nothing."""
    if status.st_uid not in (0, os.geteuid()):
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
    """All that exists on the way to a path, from the top; links and what they lead to."""
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

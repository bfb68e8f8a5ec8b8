"""The users of this machine: who they are, whose folders can be trusted, and acting as the user of the daemons."""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common.errors import Denied, Unavailable
from common.system.shortages import PASSING

# The users and groups of this machine.
#
# Theory. Python raises KeyError for a name that does not exist, and also if the look-up failed: for want of
# descriptors, by a fault of the disk, or because a directory service (LDAP) gives no reply. Such a failure is no
# verdict about the name. So after a KeyError the file of users is opened, since the C library hides its errors where
# another source comes after it; then the C library is asked again, and its result tells whether a directory service
# failed.
#
# All functions raise Unavailable if users or groups cannot be read now. The caller may look up again.


_USERS: Final = "/etc/passwd"
_GROUPS: Final = "/etc/group"
# results of the C library that say nothing about a name
_FAILURES: Final = PASSING | {
    errno.ETIMEDOUT,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
}
_GREATEST_UID: Final = 2**32 - 1
# bytes for the C library to write a user or group to: the record, and the texts and members that it points to
_RECORD: Final = 256
_CONTENT: Final = 2**18


def user_named(login: str) -> pwd.struct_passwd | None:
    """The user with this login; None: there is none."""
    try:
        return pwd.getpwnam(login)
    except ValueError:
        # the system takes no such name
        return None
    except KeyError:
        _check_looked_up("users", _USERS, "getpwnam_r", os.fsencode(login))
        return None


def user_numbered(uid: int) -> pwd.struct_passwd | None:
    """The user with this number; None: there is none."""
    if not 0 <= uid <= _GREATEST_UID:
        return None
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        _check_looked_up("users", _USERS, "getpwuid_r", uid)
        return None


def group_named(name: str) -> grp.struct_group | None:
    """The group with this name; None: there is none."""
    try:
        return grp.getgrnam(name)
    except ValueError:
        return None
    except KeyError:
        _check_looked_up("groups", _GROUPS, "getgrnam_r", os.fsencode(name))
        return None


def group_numbered(gid: int) -> grp.struct_group | None:
    """The group with this number; None: there is none."""
    if not 0 <= gid <= _GREATEST_UID:
        return None
    try:
        return grp.getgrgid(gid)
    except KeyError:
        _check_looked_up("groups", _GROUPS, "getgrgid_r", gid)
        return None


def groups_of(user: pwd.struct_passwd) -> Sequence[int]:
    """The numbers of all groups of the user."""
    found = os.getgrouplist(user.pw_name, user.pw_gid)
    # the C library leaves out what it cannot read, and says nothing
    _check_readable("groups", _GROUPS)
    return found


def _check_looked_up(what: str, path: str, function: str, key: bytes | int) -> None:
    """Make sure that the look-up was carried out, and found nothing. Raises: Unavailable."""
    _check_readable(what, path)
    code = _ask_again(function, key)
    if code in _FAILURES:
        raise _unreadable(what, code)


def _check_readable(what: str, path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        # all come from elsewhere
        return
    except OSError as error:
        raise _unreadable(what, error.errno or errno.EIO) from error


def _ask_again(function: str, key: bytes | int) -> int:
    """The result of a function of the C library, which is an errno."""
    # imported late: it is slow, and hardly ever needed
    import ctypes

    record, content = ctypes.create_string_buffer(_RECORD), ctypes.create_string_buffer(_CONTENT)
    found = ctypes.c_void_p()
    asked = ctypes.c_uint(key) if isinstance(key, int) else key
    code = getattr(ctypes.CDLL(None), function)(asked, record, content, ctypes.c_size_t(_CONTENT), ctypes.byref(found))
    # what is found now could not be read before
    return errno.EAGAIN if found else int(code)


def _unreadable(what: str, code: int) -> Unavailable:
    return Unavailable(f"the {what} of this machine cannot be read now: {os.strerror(code)}; try again")


# Folders in which no other user can create or replace files: an installation uses only such folders.
#
# Theory. A user who can write to a folder can plant a job file, a settings file or a link in it, and a user who can
# write to a folder above it can put another folder in its place. So every part of the path counts, and every part of
# the path behind each link. A part is trusted if it belongs to the daemons' user, to a user with all its rights, or to
# root, and only its owner and the groups of the daemons can write to it. A folder of root with the sticky bit, such as
# /tmp, may be writable by all: users can rename or remove only their own entries in it, and the next part has an owner,
# too.
# A link is judged only by its owner; its mode means nothing.
#
# Source: DESIGN section 4; path_resolution(7).


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


def check_trusted_tree(folder: Path, uids: Set[int] = frozenset()) -> None:
    """Refuse a folder if another user could have made, or could change, anything in it: what is in it is executed.

    Args:
        folder: absolute.
        uids: users to whom parts may belong, beside root and ourselves.
    Raises: as `check_trusted`.
    """
    check_trusted(folder, uids=uids)
    uids, gids = {0, os.geteuid(), *uids}, {os.getegid()}
    for place, folders, files in os.walk(folder, onerror=_raise):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                check_trusted(Path(path), uids=uids)
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


# Root acts as the user of the daemons, so that what it makes is theirs, and nothing of theirs can lead it astray.


_ROOT: Final = 0


def check_owner(folder: Path, act: str) -> tuple[int, int]:
    """Return user and group of a folder, if this user is its owner or root. Args: act: what only these may do.

    Raises: Denied: this is another user. OSError.
    """
    status = folder.stat()
    if os.geteuid() not in (_ROOT, status.st_uid):
        raise Denied(
            f"only root and the owner of '{folder}' may {act}; this user has the number {os.geteuid()}, and the owner "
            f"{status.st_uid}"
        )
    return status.st_uid, status.st_gid


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

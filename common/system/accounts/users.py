"""The users and groups of this machine.

Theory. Python raises KeyError for a name that does not exist, and also if the look-up failed: for want of descriptors,
by a fault of the disk, or because a directory service (LDAP) gives no reply. Such a failure is no verdict about the
name. So after a KeyError the file of users is opened, since the C library hides its errors where another source comes
after it; then the C library is asked again, and its result tells whether a directory service failed.

All functions raise Unavailable if users or groups cannot be read now. The caller may look up again.
"""

import errno
import grp
import os
import pwd
from collections.abc import Sequence
from typing import Final

from common.errors import Unavailable
from common.system.passing import PASSING

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

"""Read users and groups from the settings, by name or number.

Source: common/settings.py.
"""

from collections.abc import Callable, Mapping
from typing import Final, NewType

from common.access import Grantee
from common.settingwords.settingvalues import list_of, whole_number
from common.system.accounts.users import group_named, user_named

# numeric ids; the file may have names instead
Uid = NewType("Uid", int)
Gid = NewType("Gid", int)

# (uid_t) -1, which the kernel never assigns
_NOBODY_ID: Final = 2**32 - 1


def _uid(value: object) -> int:
    return _id_of(value, "user", lambda name: (found := user_named(name)) and found.pw_uid)


def _gid(value: object) -> int:
    return _id_of(value, "group", lambda name: (found := group_named(name)) and found.gr_gid)


def _id_of(value: object, kind: str, look_up: Callable[[str], int | None]) -> int:
    """Raises: TypeError, ValueError: there is none. Unavailable: users or groups cannot be read now."""
    if not isinstance(value, str):
        if not 0 <= (number := whole_number(value)) < _NOBODY_ID:
            raise ValueError(f"no {kind} has the number {number}")
        return number
    if (found := look_up(value)) is None:
        raise ValueError(f"there is no {kind} {value!r} on this machine")
    return found


def _grantee(value: object) -> Grantee:
    """A user; with a leading `@` a group."""
    if not isinstance(value, str) or not value.startswith("@"):
        return Grantee(_uid(value))
    name = value[1:]
    return Grantee(int(name) if name.isascii() and name.isdigit() else _gid(name), is_group=True)


# as `common.settingwords.settingvalues.READERS`
USER_READERS: Final[Mapping[object, tuple[str, Callable[[object], object]]]] = {
    tuple[Uid, ...]: ("a list of users, by name or number", list_of(_uid)),
    tuple[Grantee, ...]: ("a list of users and @groups, by name or number", list_of(_grantee)),
    tuple[Gid, ...]: ("a list of groups, by name or number", list_of(_gid)),
}

"""Read the values of settings from TOML, by the types of their fields.

Source: common/settings.py.
"""

import grp
import pwd
from collections.abc import Callable, Mapping
from typing import Final, NewType

from common.access import Grantee

# numeric ids; the file may have names instead
Uid = NewType("Uid", int)
Gid = NewType("Gid", int)


# (uid_t) -1, which the kernel never assigns
_NOBODY_ID: Final = 2**32 - 1


def _int(value: object) -> int:
    # a bool is an int in Python, but a mistake in the settings
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _float(value: object) -> float:
    return value if isinstance(value, float) else float(_int(value))


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _uid(value: object) -> int:
    return _id_of(value, "user", lambda name: pwd.getpwnam(name).pw_uid)


def _gid(value: object) -> int:
    return _id_of(value, "group", lambda name: grp.getgrnam(name).gr_gid)


def _id_of(value: object, kind: str, look_up: Callable[[str], int]) -> int:
    if not isinstance(value, str):
        if not 0 <= (number := _int(value)) < _NOBODY_ID:
            raise ValueError(f"no {kind} has the number {number}")
        return number
    try:
        return look_up(value)
    except KeyError:
        raise ValueError(f"there is no {kind} {value!r} on this machine") from None


def _grantee(value: object) -> Grantee:
    """A user; with a leading `@` a group."""
    if not isinstance(value, str) or not value.startswith("@"):
        return Grantee(_uid(value))
    name = value[1:]
    return Grantee(int(name) if name.isascii() and name.isdigit() else _gid(name), is_group=True)


def _list_of(read: Callable[[object], object]) -> Callable[[object], object]:
    def read_list(value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise TypeError
        return tuple(read(element) for element in value)

    return read_list


# type of a field -> (its name in messages, its reader; TypeError: the value has another type)
READERS: Final[Mapping[object, tuple[str, Callable[[object], object]]]] = {
    int: ("a whole number", _int),
    bool: ("true or false", _bool),
    float: ("a number", _float),
    str: ("a string", _str),
    tuple[str, ...]: ("a list of strings", _list_of(_str)),
    tuple[float, ...]: ("a list of numbers", _list_of(_float)),
    tuple[Uid, ...]: ("a list of users, by name or number", _list_of(_uid)),
    tuple[Grantee, ...]: ("a list of users and @groups, by name or number", _list_of(_grantee)),
    tuple[Gid, ...]: ("a list of groups, by name or number", _list_of(_gid)),
}

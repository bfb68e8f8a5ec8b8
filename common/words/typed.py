"""Values as people type them, in options, plans and forms: durations, sizes, locks with their modes."""

import re
from collections.abc import Iterable
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.locks import LockLevel, asked_lock, parse_lock

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
# seconds
_LONGEST: Final = 1e12


def read_duration(text: str) -> float:
    """Seconds, with an optional suffix: `90`, `1.5m`, `2h`, `7d`, `1w`. Raises: InvalidRequest."""
    number, factor = (text[:-1], _SECONDS[text[-1]]) if text[-1:] in _SECONDS else (text, 1)
    try:
        seconds = float(number) * factor
    except ValueError:
        seconds = -1.0
    # this form refuses nan as well
    if not 0 <= seconds < _LONGEST:
        raise InvalidRequest(f"'{text}' is not a duration; write seconds, or a number with s, m, h, d or w, as in 90s")
    return seconds


_UNITS: Final = ("", "K", "M", "G", "T")
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)


def read_size(text: str) -> int:
    """`512M`: bytes; K, M, G or T multiply by powers of 1024. Raises: InvalidRequest."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"'{text}' is not a size; write bytes, or a number with K, M, G or T")
    if "." in match[1] and not match[2]:
        raise InvalidRequest(f"'{text}' is not whole; write a whole number, or one with K, M, G or T, as in 1.5G")
    return int(float(match[1]) * 1024 ** _UNITS.index(match[2].upper()))


_MODES: Final = ("shared", "exclusive")
# the end of an IPv6 or MAC address: such a name contains colons itself
_ADDRESS: Final = re.compile(r".*:.*:[0-9a-fA-F]{1,4}")


@attrs.frozen
class NamedLock:
    """A lock by name and the mode to hold it in."""

    lock: str
    mode: str


def read_lock(text: str) -> NamedLock:
    """`NAME[:shared|exclusive]`; exclusive if left out. Raises: InvalidRequest."""
    name, colon, mode = text.rpartition(":")
    if not colon or _ADDRESS.fullmatch(text):
        name, mode = text, "exclusive"
    if mode not in _MODES:
        raise InvalidRequest(
            f"'{mode}' is not a lock mode; write shared or exclusive, "
            f"or '{text}:exclusive' if the colon belongs to the name"
        )
    lock = asked_lock(parse_lock(name))
    if not (lock.name or lock.is_group or lock.level is LockLevel.CONFIG):
        raise InvalidRequest(f"lock name '{name}' names nothing; write it as 'node/NAME'")
    return NamedLock(str(lock), mode)


def lock_modes(locks: Iterable[NamedLock]) -> dict[str, str]:
    """Lock -> mode. Raises: InvalidRequest: a lock is wanted in two modes."""
    modes: dict[str, str] = {}
    for each in locks:
        if modes.setdefault(each.lock, each.mode) != each.mode:
            raise InvalidRequest(f"names '{each.lock}' as shared and as exclusive; write it once")
    return modes

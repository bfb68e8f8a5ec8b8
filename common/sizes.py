"""Sizes of memory and disks: mebibytes, as a number or as text with a unit.

Source: wconfd.md 7.3; opcodes.md 3.
"""

import re
from typing import Final

from common.shapehooks import expected

_UNITS: Final = {"": 1, "m": 1, "g": 1024, "t": 1024 * 1024}
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([mgt]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)


def read_mebibytes(value: object) -> int:
    """Convert `512`, `"512"`, `"2g"` and `"1.5 TiB"` to mebibytes; units are binary.

    Raises: ValueError: the value is not a size.
    """
    size: object = value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        size = float(match[1]) * _UNITS[match[2].lower()]
    if isinstance(size, bool) or not isinstance(size, int | float) or not abs(size) < 2**63:
        raise expected("a size in MiB, or with a unit such as '2g'", value)
    return round(size)

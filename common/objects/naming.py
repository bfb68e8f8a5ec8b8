"""The order in which people expect names: `node2` before `node10`."""

import re
from typing import Final

_DIGITS: Final = re.compile(r"(\d+)", re.ASCII)


def natural_key(name: str) -> tuple[str | int, ...]:
    """A sort key that compares runs of digits as numbers, and the rest by code points."""
    # text and digits take turns, so that like meets like
    return tuple(int(part) if index % 2 else part for index, part in enumerate(_DIGITS.split(name)))

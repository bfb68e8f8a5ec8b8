"""Names as people write them: their order (`node2` before `node10`), and the short forms of host names."""

import re
from collections.abc import Sequence
from typing import Final

_DIGITS: Final = re.compile(r"(\d+)", re.ASCII)


def natural_key(name: str) -> tuple[str | int, ...]:
    """A sort key that compares runs of digits as numbers, and the rest by code points."""
    # text and digits alternate, so parts of one type are compared
    return tuple(int(part) if index % 2 else part for index, part in enumerate(_DIGITS.split(name)))


def short_names(name: str) -> Sequence[str]:
    """The short forms of a host name: of `a.b.c` these are `a` and `a.b`."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]

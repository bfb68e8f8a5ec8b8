"""Ranges of the sizes of instances, as they are written on a command line: `min:cpu-count=1,.../max:cpu-count=4,...`.

Several ranges have `//` between them.

Source: Ganeti's `gnt-group modify` (seen); wconfd.md 7.3.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from common.sizes import read_mebibytes

Sizes = Mapping[str, int]

# what can be limited -> whether it is a size in MiB
_LIMITED: Final = {
    "memory-size": True,
    "disk-size": True,
    "disk-count": False,
    "cpu-count": False,
    "nic-count": False,
    "spindle-use": False,
}
_ENDS: Final = ("min", "max")


def parse_bounds(text: str) -> Sequence[Mapping[str, Sizes]]:
    """The ranges, each with the keys `min` and `max`. Raises: ValueError: with what is wrong, for the user."""
    return [_range(part) for part in text.split("//")]


def _range(text: str) -> Mapping[str, Sizes]:
    found: dict[str, Sizes] = {}
    for part in text.split("/"):
        end, _, values = part.partition(":")
        if end not in _ENDS or end in found:
            raise ValueError(f"'{part:.60}' is not one of min:... and max:..., with a / between them")
        found[end] = _sizes(end, values)
    if missing := [end for end in _ENDS if end not in found]:
        raise ValueError(f"'{text:.60}' has no part {missing[0]}:...")
    return found


def _sizes(end: str, text: str) -> Sizes:
    sizes: dict[str, int] = {}
    for pair in text.split(","):
        name, _, value = pair.partition("=")
        if name not in _LIMITED:
            raise ValueError(f"'{name}' of {end} cannot be limited; known are {', '.join(_LIMITED)}")
        sizes[name] = _number(name, value)
    if missing := [name for name in _LIMITED if name not in sizes]:
        raise ValueError(f"{end} lacks {', '.join(missing)}")
    return sizes


def _number(name: str, text: str) -> int:
    try:
        return read_mebibytes(text) if _LIMITED[name] else int(text)
    except ValueError:
        raise ValueError(f"'{name}={text}' is not a number") from None

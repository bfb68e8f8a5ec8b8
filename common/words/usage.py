"""The resources that a job's commands used, from the results of its opcodes.

Source: `common.commands.usage`; DESIGN section 16.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

_STEP: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


@attrs.frozen
class Usage:
    """The usage of all ended commands of a job together."""

    memory_peak_bytes: int
    # whether the peak covers all processes; False: it is that of the largest one
    memory_of_all: bool
    # whether the peak is only a bound; the true one is not known
    memory_is_at_most: bool
    cpu_user_s: float
    cpu_system_s: float
    read_bytes: int
    written_bytes: int

    @property
    def cpu_s(self) -> float:
        return self.cpu_user_s + self.cpu_system_s


def usage_of(results: Sequence[object] | None) -> Usage | None:
    """The sum of the commands' usage, and their highest memory peak; None: no result has any.

    Args: results: results of the opcodes, as on the wire.
    """
    found = list(_usages(results or ()))
    if not found:
        return None
    highest = max(found, key=lambda usage: usage["memory_peak_bytes"])
    return Usage(
        int(highest["memory_peak_bytes"]),
        bool(highest["memory_of_all"]),
        bool(highest.get("memory_is_at_most", False)),
        sum(usage["cpu_user_s"] for usage in found),
        sum(usage["cpu_system_s"] for usage in found),
        read_bytes=sum(int(usage["read_bytes"]) for usage in found),
        written_bytes=sum(int(usage["written_bytes"]) for usage in found),
    )


def _usages(results: Sequence[object]) -> Iterator[Mapping[str, float]]:
    for result in results:
        match result:
            case {"usage": {"memory_peak_bytes": int()} as usage}:
                yield usage
            case [_, [_, {"usage": {"memory_peak_bytes": int()} as usage}]]:
                yield usage
            case _:
                pass


def memory_words(usage: Usage) -> str:
    """The memory peak for a column."""
    return f"{'<=' if usage.memory_is_at_most else ''}{size(usage.memory_peak_bytes)}"


def usage_words(usage: Usage) -> str:
    """The usage in one line."""
    whose = "" if usage.memory_of_all else " (largest process)"
    bound = "at most " if usage.memory_is_at_most else ""
    return (
        f"peak memory {bound}{size(usage.memory_peak_bytes)}{whose}, CPU {usage.cpu_user_s:.2f}s user and "
        f"{usage.cpu_system_s:.2f}s system, {size(usage.read_bytes)} read and {size(usage.written_bytes)} written"
    )


def size(count: float) -> str:
    """`12.3 MiB`."""
    place = 0
    while count >= _STEP and place < len(_UNITS) - 1:
        count, place = count / _STEP, place + 1
    return f"{count:.1f} {_UNITS[place]}" if place else f"{count:.0f} B"

"""Numbers of units in words: `5`, `64G`.

Source: DESIGN section 16.
"""

from typing import Final

from common.resources import Unit

_SUFFIXES: Final = " KMGTPE"


def units_text(count: int, unit: Unit) -> str:
    """The count as people write it. Bytes have the largest suffix with which they are a whole number: `1536M`."""
    size, power = count, 0
    while unit is Unit.BYTES and size and size % 1024 == 0 and power < len(_SUFFIXES) - 1:
        size, power = size // 1024, power + 1
    return f"{size}{_SUFFIXES[power].strip()}"

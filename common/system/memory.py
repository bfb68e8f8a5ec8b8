"""Memory that is given back to the system.

The C library gives a block of its own to what is large, and returns it as soon as it is freed. But with each such
block that is freed it takes larger ones for small, up to 32 MiB, and puts them among others, where what
lives longer keeps them from being returned: after 40 messages of 12 MiB a daemon kept 90 MB for good.

Source: mallopt(3), `M_MMAP_THRESHOLD`.
"""

import ctypes
from typing import Final

# of a block that is returned when it is freed: the C library's own first value, which then stays
LARGE_BYTES: Final = 128 * 2**10
_M_MMAP_THRESHOLD: Final = -3


def return_large_blocks() -> bool:
    """Let memory for large things go back to the system at once; for this process.

    Returns: False where the C library cannot do it.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
    except (OSError, AttributeError):
        return False

"""Return freed memory to the system.

The C library maps a large block separately, and returns it as soon as it is freed. But after each such
free it raises the size from which a block is large, up to 32 MiB, and puts smaller ones among others, where
longer-lived ones keep them from being returned: after 40 messages of 12 MiB a daemon kept 90 MB for good.

Source: mallopt(3), `M_MMAP_THRESHOLD`.
"""

import ctypes
from typing import Final

# size of a block that is returned when it is freed: the C library's initial threshold, now fixed
LARGE_BYTES: Final = 128 * 2**10
_M_MMAP_THRESHOLD: Final = -3


def return_large_blocks() -> bool:
    """Make the C library return large freed blocks to the system at once, for this process.

    Returns: False where the C library cannot do it.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
    except (OSError, AttributeError):
        return False

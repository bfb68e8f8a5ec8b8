"""Errors of the kernel that pass: they say nothing about what was asked for, and the same call may succeed later.

Source: DESIGN section 11.
"""

import errno
from typing import Final

# want of descriptors or memory, in this process or on its machine
SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# beside them what a disk, a file server, or a signal causes
PASSING: Final = SHORTAGES | {errno.EAGAIN, errno.EINTR, errno.EIO, errno.ESTALE}


def is_passing(error: Exception) -> bool:
    """Whether the error says nothing about what was asked for."""
    return isinstance(error, OSError) and error.errno in PASSING

"""What the disk says of the locks now, whatever of it is in the journal: as a daemon would read it that starts."""

from pathlib import Path

from daemons.wconfd.core.locks.encoding import encode
from daemons.wconfd.locks.lockfiles import read_locks


def durable_locks(locks_data: Path) -> bytes:
    """`locks.data` as it would be if it were written whole; the daemon may run."""
    return encode(read_locks(locks_data).state)

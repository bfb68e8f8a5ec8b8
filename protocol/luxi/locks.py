"""A row of the lock monitor: luxid makes it, and clients read it.

Source: luxid.md 7.4.
"""

from typing import Final

import attrs

from common.shapes import Row

# fields of a Query of locks, in the order of `LockRow`
LOCK_FIELDS: Final = ("name", "mode", "owner", "pending")


@attrs.frozen
class LockRow(Row):
    """One lock, or a job whose end others wait for; owners and pending requests in the order of wconfd."""

    name: str
    # strongest mode in which it is held; None: it is free
    mode: str | None
    owners: tuple[str, ...]
    # pairs of a mode, or of the final states of a job that are wanted, and the owners that wait
    pending: tuple[tuple[str, tuple[str, ...]], ...]

"""The bytes that a server keeps for its peers: unfinished requests, and replies not yet read.

Theory. Each connection has a share: the size of its unfinished message, or of the unsent part of a
reply. Shares below SMALL_BYTES are not counted, so ordinary calls are never held back. A share that would grow beyond
that waits while its user's shares, or all together, exceed their bounds. But the oldest share of a user
may always grow, up to the limit of one message, and so may the oldest of all. So one connection can always go on, and
the maximum kept is a bound plus one message. A reply exists already and cannot wait; it is refused.
A peer that stalls (has sent or read nothing for STALL_S) while others want room is cut off.

Source: DESIGN section 4, "a slow reader cannot stop others".
"""

from typing import Final

import attrs
import trio

from common.errors import TooBusy
from common.settings import LimitsSettings

SMALL_BYTES: Final = 16 * 2**10
STALL_S: Final = 5.0
# seconds to wait for room
PATIENCE_S: Final = 20.0


@attrs.frozen
class BudgetLimits:
    """Bounds in bytes."""

    per_user: int = 64 * 2**20
    in_all: int = 256 * 2**20

    @classmethod
    def of(cls, settings: LimitsSettings) -> "BudgetLimits":
        return cls(settings.max_kept_bytes_per_user, settings.max_kept_bytes)


class Budget:
    """The bytes kept by all connections of a server; make one for each server."""

    def __init__(self, limits: BudgetLimits) -> None:
        self.limits = limits
        # uid -> its counted shares, oldest first; no empty ones
        self._shares: dict[int, dict[Share, None]] = {}
        # all counted shares, oldest first
        self._all: dict[Share, None] = {}
        self._sizes: dict[int, int] = {}
        self._total = 0
        self._freed = trio.Event()
        # instant on trio's clock of the last request for room that failed
        self._wanted_at = float("-inf")

    @property
    def total(self) -> int:
        """Bytes kept, without small shares."""
        return self._total

    @property
    def is_wanted(self) -> bool:
        """Whether a connection recently wanted room and got none."""
        return trio.current_time() - self._wanted_at <= STALL_S

    def has_room(self, share: "Share", size: int) -> bool:
        """Whether this share may have this size now."""
        if size <= SMALL_BYTES:
            return True
        more = size - share.size
        own = self._shares.get(share.uid)
        fits_user = (
            self._sizes.get(share.uid, 0) + more <= self.limits.per_user or own is None or next(iter(own)) is share
        )
        fits_all = self._total + more <= self.limits.in_all or not self._all or next(iter(self._all)) is share
        if not (fits_user and fits_all):
            self._wanted_at = trio.current_time()
        return fits_user and fits_all

    async def room(self, share: "Share", size: int) -> None:
        """Wait until this share may have this size.

        Raises: TooBusy: there was no room within PATIENCE_S.
        """
        with trio.move_on_after(PATIENCE_S):
            while not self.has_room(share, size):
                with trio.move_on_after(STALL_S):
                    await self._freed.wait()
            return
        raise self.refusal(share.uid)

    def refusal(self, uid: int) -> TooBusy:
        kept, limits = self._sizes.get(uid, 0), self.limits
        return TooBusy(
            f"this daemon keeps {kept} bytes of unfinished messages and unread replies for user {uid} (at most "
            f"{limits.per_user}), and {self._total} in all (at most {limits.in_all}); read or finish those first"
        )

    def resize(self, share: "Share", size: int) -> None:
        """Set the size of this share."""
        counted = size if size > SMALL_BYTES else 0
        more = counted - share.size
        if not more:
            return
        share.size = counted
        self._total += more
        self._sizes[share.uid] = self._sizes.get(share.uid, 0) + more
        if counted:
            self._shares.setdefault(share.uid, {}).setdefault(share)
            self._all.setdefault(share)
        else:
            self._drop(share)
        if more < 0:
            self._freed.set()
            self._freed = trio.Event()

    def _drop(self, share: "Share") -> None:
        del self._all[share]
        own = self._shares[share.uid]
        del own[share]
        if not own:
            del self._shares[share.uid]
            del self._sizes[share.uid]


@attrs.define(eq=False)
class Share:
    """The bytes kept for one connection."""

    uid: int
    # counted size: 0 while it is small
    size: int = 0

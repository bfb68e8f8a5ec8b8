"""Bounds of a server: how many connections it admits, and how many bytes it keeps for them."""

from collections import Counter
from typing import Final

import attrs
import trio

from common.errors import TooBusy
from common.settings import LimitsSettings

# Admission of connections: bounds per user and in total, with places reserved for operators.
#
# Pure: no sockets. Each user has at most `per_user` connections. The last `reserve` places are for root and
# the daemons' own user, who have no bound of their own; the last half of these is for root alone. So a user who
# opens connections without end keeps out neither another user nor an operator.
#
# Source: DESIGN section 4.


ROOT: Final = 0
# uid under which all users without a role are counted together
STRANGERS: Final = -1


@attrs.frozen
class ConnectionLimits:
    """Bounds on the number of simultaneous connections of a daemon."""

    in_all: int = 2000
    # connections of one user, except root and the daemons' own
    per_user: int = 500
    # connections out of `in_all`, reserved for root and the daemons' own user
    reserve: int = 32

    @classmethod
    def of(cls, settings: LimitsSettings) -> "ConnectionLimits":
        return cls(settings.max_connections, settings.max_connections_per_user, settings.reserved_connections)

    def within(self, count: int) -> "ConnectionLimits":
        """The same bounds for a process that can have at most `count` connections."""
        in_all = max(1, min(self.in_all, count))
        return ConnectionLimits(in_all, min(self.per_user, in_all), min(self.reserve, in_all // 2))


class ConnectionCounts:
    """The connections of one server, counted by user."""

    def __init__(self, limits: ConnectionLimits, own_uid: int) -> None:
        self._limits = limits
        self._own_uid = own_uid
        # uid -> number of connections, never 0
        self._counts: Counter[int] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        return self._total

    def enter(self, uid: int) -> None:
        """Count one more connection of this user; the caller must call `leave` at its end.

        Raises: TooBusy: the user, or all users together, have as many as allowed; the message has the number.
        """
        limits = self._limits
        places = limits.in_all - self._kept_from(uid)
        who = "users who may not call" if uid == STRANGERS else f"user {uid}"
        if self._total >= places:
            raise TooBusy(
                f"this daemon has {self._total} connections, of at most {places} for {who}; "
                "close some, or raise 'max_connections' in its settings",
                limit=places,
            )
        if uid not in (ROOT, self._own_uid) and self._counts[uid] >= limits.per_user:
            raise TooBusy(
                f"this daemon has {self._counts[uid]} connections of {who}, of at most {limits.per_user}; "
                "close some, or raise 'max_connections_per_user' in its settings",
                limit=limits.per_user,
            )
        self._counts[uid] += 1
        self._total += 1

    def leave(self, uid: int) -> None:
        self._counts[uid] -= 1
        if not self._counts[uid]:
            del self._counts[uid]
        self._total -= 1

    def _kept_from(self, uid: int) -> int:
        """The number of places that this user may not take."""
        if uid == ROOT:
            return 0
        return self._limits.reserve // 2 if uid == self._own_uid else self._limits.reserve


# The bytes that a server keeps for its peers: unfinished requests, and replies not yet read.
#
# Theory. Each connection has a share: the size of its unfinished message, or of the unsent part of a
# reply. Shares below SMALL_BYTES are not counted, so ordinary calls are never held back. A share that would grow beyond
# that waits while its user's shares, or all together, exceed their bounds. But the oldest share of a user
# may always grow, up to the limit of one message, and so may the oldest of all. So one connection can always go on, and
# the maximum kept is a bound plus one message. A reply exists already and cannot wait; it is refused.
# A peer that stalls (has sent or read nothing for STALL_S) while others want room is cut off.
#
# Source: DESIGN section 4, "a slow reader cannot stop others".


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

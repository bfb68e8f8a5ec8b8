"""Who gets a connection: bounds per user and in all, with places kept for operators.

Pure: no sockets. Each user has at most `per_user` connections, and the last `reserve` places are for root and
the daemons' own user, of whom no user's share is asked; the last half of these is for root alone. So nobody who opens
connections without end keeps out another user, or an operator.

Source: DESIGN section 4.
"""

from collections import Counter
from typing import Final

import attrs

from common.errors import TooBusy
from common.settings import LimitsSettings

ROOT: Final = 0
# the users who may not call the daemon: all of them are counted as one
STRANGERS: Final = -1


@attrs.frozen
class ConnectionLimits:
    """How many connections a daemon has at once."""

    in_all: int = 2000
    # of one user who is neither root nor the daemons' own
    per_user: int = 500
    # of those in all, kept for root and the daemons' own user
    reserve: int = 32

    @classmethod
    def of(cls, settings: LimitsSettings) -> "ConnectionLimits":
        return cls(settings.max_connections, settings.max_connections_per_user, settings.reserved_connections)

    def within(self, count: int) -> "ConnectionLimits":
        """The same where no more than `count` connections can be had."""
        in_all = max(1, min(self.in_all, count))
        return ConnectionLimits(in_all, min(self.per_user, in_all), min(self.reserve, in_all // 2))


class Admission:
    """The connections of one server, counted by user."""

    def __init__(self, limits: ConnectionLimits, own_uid: int) -> None:
        self._limits = limits
        self._own_uid = own_uid
        # no zeros
        self._counts: Counter[int] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        return self._total

    def enter(self, uid: int) -> None:
        """Count one more connection of this user; whoever enters leaves.

        Raises: TooBusy: the user has as many as it may, or there are as many in all; says the number.
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
        """Places that this user may not take."""
        if uid == ROOT:
            return 0
        return self._limits.reserve // 2 if uid == self._own_uid else self._limits.reserve

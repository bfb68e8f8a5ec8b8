"""Admission of connections: bounds per user and in total, with places reserved for operators.

Pure: no sockets. Each user has at most `per_user` connections. The last `reserve` places are for root and
the daemons' own user, who have no bound of their own; the last half of these is for root alone. So a user who
opens connections without end keeps out neither another user nor an operator.

Source: DESIGN section 4.
"""

from collections import Counter
from typing import Final

import attrs

from common.errors import TooBusy
from common.settings import LimitsSettings

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


class Admission:
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

"""Sessions of people who have logged in: kept in memory, so a restart logs everybody out.

Theory. A session keeps the caller whom the password named, and asks at each use what he may do now: a user who was
removed, or has another password, has no session any more. It ends after `IDLE_S` without use, and `LONGEST_S` after
the login in any case. Its id is chosen anew at the login, so nobody can prepare one for somebody else.

Source: issue 12, item 6.
"""

import secrets
from collections.abc import Callable
from typing import Final

import attrs
import trio

from common.webaccess.principal import Principal

IDLE_S: Final = 2 * 3600.0
LONGEST_S: Final = 12 * 3600.0
# seconds between two looks at the session of an open page
_LOOK_S: Final = 60.0
# sessions at once; the one that was unused for the longest time makes room
MOST: Final = 10_000


@attrs.define
class Session:
    caller: Principal
    # seconds of the clock
    opened_at: float
    used_at: float
    # set when it ends
    over: trio.Event = attrs.field(factory=trio.Event, eq=False)


class Sessions:
    """Args:
    current: the caller with the rights of now; None: he may not call any more.
    clock: seconds, which never go back.
    """

    def __init__(self, current: Callable[[Principal], Principal | None], clock: Callable[[], float]) -> None:
        self._current = current
        self._clock = clock
        self._open: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, caller: Principal) -> str:
        """Begin a session; return its id."""
        now = self._clock()
        self._sweep(now)
        while len(self._open) >= MOST:
            self.close(min(self._open, key=lambda each: self._open[each].used_at))
        session_id = secrets.token_urlsafe(32)
        self._open[session_id] = Session(caller, now, now)
        return session_id

    def find(self, session_id: str) -> Session | None:
        """The session, with the rights of now; None: there is none, or it is over."""
        session = self._open.get(session_id)
        if session is None:
            return None
        now = self._clock()
        caller = None if _is_over(session, now) else self._current(session.caller)
        if caller is None:
            self.close(session_id)
            return None
        session.caller, session.used_at = caller, now
        return session

    async def wait_until_over(self, session_id: str) -> None:
        """Return when the session is over. Meanwhile it counts as used: for open pages. Cancellation: at any time."""
        while (session := self.find(session_id)) is not None:
            with trio.move_on_after(_LOOK_S):
                await session.over.wait()

    def close(self, session_id: str) -> None:
        """End the session, if it is there, and all that goes on in its name."""
        session = self._open.pop(session_id, None)
        if session is not None:
            session.over.set()

    def _sweep(self, now: float) -> None:
        for session_id in [each for each, session in self._open.items() if _is_over(session, now)]:
            self.close(session_id)


def _is_over(session: Session, now: float) -> bool:
    return now - session.used_at >= IDLE_S or now - session.opened_at >= LONGEST_S

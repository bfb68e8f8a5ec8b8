"""Sessions of people who have logged in: in memory, and noted in wconfd, where the next rapid finds them.

Theory. A session ends after `IDLE_S` without use, and `LONGEST_S` after the login in any case. Its id is chosen anew at
the login, so nobody can prepare one for somebody else. At each use the users file is asked what the user may do now:
one who was removed, or has another password, has no session any more, on no node.

wconfd keeps the sessions with the configuration, so they outlive a restart, and a move of the master. What wconfd does
not have any more is over, once it was there. Who logs in or out does not need wconfd: what it lacks is noted as soon as
it replies. A use is noted only now and then, so after a restart a session may end that much earlier.

Source: DESIGN sections 15 and 16.
"""

import hmac
import secrets
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

import attrs
import trio

from common.errors import GantryError, Unavailable
from common.system.log import get_log
from common.webaccess.rights import NOBODY, Principal
from common.webaccess.sessions import KeptSession, key_of, proof_of
from protocol.client import Client
from protocol.unixsocket import pauses
from protocol.wconfd.config import ChangeSessions, FollowSessions

IDLE_S: Final = 2 * 3600.0
LONGEST_S: Final = 12 * 3600.0
# sessions at once; the one that was unused for the longest time makes room
MOST: Final = 10_000
# seconds from one noted use to the next
USES_S: Final = 900.0
# seconds for which noted uses are gathered
_GATHER_S: Final = 60.0
# seconds between two looks at the session of an open page
_LOOK_S: Final = 60.0
# seconds that somebody waits for wconfd
PATIENCE_S: Final = 2.0
_log: Final = get_log(__name__)


@attrs.define
class Session:
    user: str
    proof: str
    # seconds of the clock
    opened_at: float
    used_at: float
    # the last use that wconfd was told of
    noted_at: float
    # whether wconfd has it
    is_kept: bool = False
    # with the rights of the last use
    caller: Principal = NOBODY
    # set when it ends
    over: trio.Event = attrs.field(factory=trio.Event, eq=False)


class Sessions:
    """Args:
    named: the user of this name, with the rights of now; None: there is none.
    clock: seconds, which never go back.
    day: seconds since the epoch.
    """

    def __init__(
        self,
        named: Callable[[str], Principal | None],
        clock: Callable[[], float],
        day: Callable[[], float] = time.time,
    ) -> None:
        self._named = named
        self._clock = clock
        self._day = day
        # by their keys
        self._open: dict[str, Session] = {}
        # keys of those that have ended here, and when: an older state of wconfd's brings none of them back
        self._ended: dict[str, float] = {}
        # keys of which wconfd is to be told, and how often they have changed
        self._unnoted: dict[str, int] = {}
        self._to_note = trio.Event()
        self._noted = trio.Event()
        self._read = trio.Event()
        # what is wrong with wconfd, as it was logged
        self._trouble = ""

    def __len__(self) -> int:
        return len(self._open)

    def open(self, caller: Principal) -> str:
        """Begin a session; return its id."""
        now = self._clock()
        self._sweep(now)
        while len(self._open) >= MOST:
            self._end(min(self._open, key=lambda each: self._open[each].used_at))
        session_id = secrets.token_urlsafe(32)
        self._open[key_of(session_id)] = Session(caller.name, proof_of(session_id, caller.stamp), now, now, now)
        self._note(key_of(session_id))
        return session_id

    def find(self, session_id: str) -> Session | None:
        """The session, with the rights of now; None: there is none, or it is over."""
        key = key_of(session_id)
        session = self._open.get(key)
        if session is None:
            return None
        now = self._clock()
        caller = None if _is_over(session, now) else self._named(session.user)
        if caller is None or not hmac.compare_digest(proof_of(session_id, caller.stamp), session.proof):
            self._end(key)
            return None
        session.caller, session.used_at = caller, now
        if now - session.noted_at >= USES_S:
            session.noted_at = now
            self._unnoted[key] = self._unnoted.get(key, 0) + 1
        return session

    async def wait_until_over(self, session_id: str) -> None:
        """Return when the session is over. Meanwhile it counts as used: for open pages. Cancellation: at any time."""
        while (session := self.find(session_id)) is not None:
            with trio.move_on_after(_LOOK_S):
                await session.over.wait()

    def close(self, session_id: str) -> None:
        """End the session, if it is there, and all that goes on in its name."""
        if (key := key_of(session_id)) in self._open:
            self._end(key)

    async def wait_until_noted(self, session_id: str) -> bool:
        """Whether wconfd knows, after some patience, that the session has begun, or is over. Cancellation: safe."""
        key = key_of(session_id)
        with trio.move_on_after(PATIENCE_S):
            while key in self._unnoted:
                await self._noted.wait()
        return key not in self._unnoted

    async def wait_until_read(self) -> bool:
        """Whether the sessions of earlier runs are known, after some patience. Cancellation: safe."""
        with trio.move_on_after(PATIENCE_S):
            await self._read.wait()
        return self._read.is_set()

    def take(self, kept: Collection[KeptSession]) -> None:
        """wconfd has these."""
        now, day = self._clock(), self._day()
        for each in kept:
            session = self._open.get(each.key)
            used_at = now - max(0.0, day - each.used_at)
            if session is None and each.key not in self._ended:
                opened_at = now - max(0.0, day - each.opened_at)
                session = self._open[each.key] = Session(each.user, each.proof, opened_at, used_at, used_at)
            if session is not None:
                session.is_kept = True
                session.used_at = max(session.used_at, used_at)
        there = {each.key for each in kept}
        for key in [key for key, session in self._open.items() if session.is_kept and key not in there]:
            self._end(key)
        self._sweep(now)
        self._read.set()

    def changes(self, keys: Iterable[str]) -> ChangeSessions:
        """What wconfd is to be told of these."""
        day, now, noted, ended = self._day(), self._clock(), list[KeptSession](), list[str]()
        for key in keys:
            if (session := self._open.get(key)) is None:
                ended.append(key)
                continue
            times = (day - (now - session.opened_at), day - (now - session.used_at))
            noted.append(KeptSession(key, session.user, session.proof, *times))
        return ChangeSessions(tuple(noted), tuple(ended))

    async def run(self, wconfd: Path) -> None:
        """Follow and note in wconfd, until cancelled. Args: wconfd: its socket."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_kept, Client(wconfd, daemon="wconfd"))
            nursery.start_soon(self._note_changes, Client(wconfd, daemon="wconfd"))

    async def _follow_kept(self, wconfd: Client) -> None:
        known, pauses_s = "", pauses()
        while True:
            try:
                now = await wconfd.call(FollowSessions(known))
            except GantryError as error:
                if not isinstance(error, Unavailable):
                    # waiting does not help
                    self._tell(error.message)
                await trio.sleep(next(pauses_s))
            else:
                self.take(now.sessions)
                self._tell("")
                known, pauses_s = now.stamp, pauses()

    async def _note_changes(self, wconfd: Client) -> None:
        pauses_s = pauses()
        while True:
            with trio.move_on_after(_GATHER_S):
                await self._to_note.wait()
            self._to_note = trio.Event()
            if not (told := dict(self._unnoted)):
                continue
            try:
                await wconfd.call(self.changes(told))
            except GantryError as error:
                self._tell(error.message)
                self._to_note.set()
                await trio.sleep(next(pauses_s))
            else:
                self._unnoted = {key: count for key, count in self._unnoted.items() if told.get(key) != count}
                self._noted.set()
                self._noted, pauses_s = trio.Event(), pauses()

    def _end(self, key: str) -> None:
        session = self._open.pop(key)
        session.over.set()
        self._ended[key] = self._clock()
        self._note(key)

    def _note(self, key: str) -> None:
        self._unnoted[key] = self._unnoted.get(key, 0) + 1
        self._to_note.set()

    def _sweep(self, now: float) -> None:
        for key in [key for key, session in self._open.items() if _is_over(session, now)]:
            self._end(key)
        self._ended = {key: at for key, at in self._ended.items() if now - at < LONGEST_S}

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            effect = "a restart of rapid ends the sessions that have begun since; who has logged out is noted later"
            _log.warning("sessions.not_kept", reason=trouble, effect=effect, going_on="again until it succeeds")
        self._trouble = trouble


def _is_over(session: Session, now: float) -> bool:
    return now - session.used_at >= IDLE_S or now - session.opened_at >= LONGEST_S

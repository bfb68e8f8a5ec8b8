"""Visitors: who they are by their cookie, and whether a form comes from our own page.

Theory. A cookie alone does not tell whether its owner wants a change: another site can make his browser send a form.
So three things must fit: the cookie is not sent from other sites at all (SameSite=Strict); the browser says that the
form comes from this host (Origin); and the form has a token which only our pages show, made from the cookie's value.
A change is made by the owner of a session only: whoever calls with a password or over the Unix socket has /3.

Source: issue 12, item 6.
"""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import trio
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from common.webaccess.rights import Principal
from daemons.rapid.page.views.frame import THEMES
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.transport.callers import is_encrypted, is_of_host

# Sessions of people who have logged in: kept in memory, so a restart logs everybody out.
#
# Theory. A session keeps the caller whom the password named, and asks at each use what he may do now: a user who was
# removed, or has another password, has no session any more. It ends after `IDLE_S` without use, and `LONGEST_S` after
# the login in any case. Its id is chosen anew at the login, so nobody can prepare one for somebody else.
#
# Source: issue 12, item 6.


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


COOKIE: Final = "gantry-visit"
THEME_COOKIE: Final = "gantry-theme"
LOOKED_COOKIE: Final = "gantry-looked"
_PATH: Final = "/ui"
_YEAR_S: Final = 365 * 86400
# seconds since the epoch
_INSTANT: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
# longer cookies are not ours
_LONGEST_ID: Final = 64
Form = Mapping[str, Sequence[str]]


@attrs.frozen
class Visitors:
    sessions: Sessions
    _key: bytes = attrs.field(factory=lambda: os.urandom(32), repr=False)

    def caller(self, http: HttpRequest) -> Principal | None:
        """Whom the cookie names; None: nobody."""
        session = self.session(http)
        return None if session is None else session.caller

    def session(self, http: HttpRequest) -> Session | None:
        return self.sessions.find(self.visit(http))

    def visit(self, http: HttpRequest) -> str:
        """The value of the cookie; empty: there is none."""
        value = http.cookies.get(COOKIE, "")
        return value if len(value) <= _LONGEST_ID else ""

    def token(self, visit: str) -> str:
        """What forms for this visitor must have."""
        return hmac.new(self._key, visit.encode(errors="replace"), hashlib.sha256).hexdigest() if visit else ""

    def check_form(self, http: HttpRequest, form: Form) -> None:
        """Raises: RequestRefused: 403: the form does not come from a page that this visitor was shown."""
        visit = self.visit(http)
        if not _is_own(http):
            raise RequestRefused(403, "this form was sent by another site, so nothing was changed")
        if not visit or not hmac.compare_digest(self.token(visit).encode(), first(form, "token").encode()):
            raise RequestRefused(403, "this form is not one that you were shown, or it is too old; open the page again")

    def welcome(self, http: HttpRequest, response: Response) -> str:
        """Give a visitor without a cookie one; return its value."""
        visit = self.visit(http) or secrets.token_urlsafe(32)
        if visit != self.visit(http):
            _set(response, COOKIE, visit, int(LONGEST_S))
        return visit

    def log_in(self, http: HttpRequest, caller: Principal, response: Response) -> None:
        """Begin a session with an id of its own; one that the visitor had is over."""
        self.sessions.close(self.visit(http))
        _set(response, COOKIE, self.sessions.open(caller), int(LONGEST_S))

    def log_out(self, http: HttpRequest, response: Response) -> None:
        self.sessions.close(self.visit(http))
        response.delete_cookie(COOKIE, path=_PATH, secure=True, httponly=True, samesite="strict")


def theme_of(http: HttpRequest) -> str:
    theme = http.cookies.get(THEME_COOKIE, "")
    return theme if theme in THEMES else "auto"


def set_theme(response: Response, theme: str) -> None:
    _set(response, THEME_COOKIE, theme if theme in THEMES else "auto", _YEAR_S)


def looked_at(http: HttpRequest) -> float | None:
    """End of the last failure that the visitor has marked as seen, in seconds since the epoch; None: of none."""
    return _instant(http.cookies.get(LOOKED_COOKIE, ""))


def set_looked_at(response: Response, text: str) -> None:
    """Take the mark of a form; one that is no instant changes nothing."""
    if (at := _instant(text)) is not None:
        _set(response, LOOKED_COOKIE, repr(at), _YEAR_S)


def _instant(text: str) -> float | None:
    return float(text) if _INSTANT.fullmatch(text) else None


def first(form: Form, name: str) -> str:
    """The first value of a field; empty: there is none."""
    return next(iter(form.get(name, ())), "")


def own_path(text: str, otherwise: str = "/ui") -> str:
    """The text if it is an address of the page; else another one: a form must not lead to a foreign site."""
    is_ours = text == "/ui" or text.startswith(("/ui/", "/ui?"))
    return text if is_ours and text.isprintable() and "\\" not in text else otherwise


def _set(response: Response, name: str, value: str, age_s: int) -> None:
    response.set_cookie(name, value, max_age=age_s, path=_PATH, secure=True, httponly=True, samesite="strict")


def _is_own(http: HttpRequest) -> bool:
    origin = http.headers.get("origin")
    if origin is None:
        # every browser of these days sends one of the two with a form
        return http.headers.get("sec-fetch-site") == "same-origin"
    return is_of_host(origin, http.headers.get("host", ""), is_encrypted=is_encrypted(http))

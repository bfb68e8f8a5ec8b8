"""Visitors: who they are by their cookie, and whether a form comes from our own page.

Theory. A cookie alone does not tell whether its owner wants a change: another site can make his browser send a form.
So three things must fit: the cookie is not sent from other sites at all (SameSite=Strict); the browser says that the
form comes from this host (Origin); and the form has a token which only our pages show, made from the cookie's value,
which no script can read. A change is made by the owner of a session only: whoever calls with a password or over the
Unix socket has /3.

Source: issue 12, item 6.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from common.webaccess.rights import Principal
from daemons.rapid.page.sessions import LONGEST_S, PATIENCE_S, Session, Sessions
from daemons.rapid.page.views.frame import THEMES
from daemons.rapid.refusals import RequestRefused, Silent
from daemons.rapid.transport.callers import is_encrypted, is_of_host

COOKIE: Final = "gantry-visit"
THEME_COOKIE: Final = "gantry-theme"
LOOKED_COOKIE: Final = "gantry-looked"
_PATH: Final = "/ui"
# what is the same for everybody
_FOR_ALL: Final = ("/ui/login", "/ui/static/")
_YEAR_S: Final = 365 * 86400
# seconds since the epoch
_INSTANT: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
# longer cookies are not ours
_LONGEST_ID: Final = 64
Form = Mapping[str, Sequence[str]]


@attrs.frozen
class Visitors:
    sessions: Sessions

    async def caller(self, http: HttpRequest) -> Principal | None:
        """Whom the cookie names; None: nobody. Raises: Silent: it cannot be known before wconfd replies."""
        if self.visit(http) and not http.url.path.startswith(_FOR_ALL) and not await self.sessions.wait_until_read():
            raise Silent(
                f"wconfd has not replied for {PATIENCE_S:g} s, so it is not known who has logged in; try again, or log "
                "in anew at /ui/login"
            )
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
        return hashlib.sha256(b"form:" + visit.encode(errors="replace")).hexdigest() if visit else ""

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

    async def log_out(self, http: HttpRequest, response: Response) -> None:
        """End the session, on all nodes. Durability: on return it is noted, unless wconfd does not reply."""
        self.sessions.close(self.visit(http))
        await self.sessions.wait_until_noted(self.visit(http))
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

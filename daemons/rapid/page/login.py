"""The calls by which people come and go."""

from collections.abc import Awaitable, Callable, Iterator

import attrs
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from common.errors import GantryError
from common.system.log import get_log
from common.webaccess.rights import Principal
from daemons.rapid.calls import Asked, Call
from daemons.rapid.page import replies
from daemons.rapid.page.pages import LIVE, Pages, shown
from daemons.rapid.page.templates import draw
from daemons.rapid.page.views.boards import KeysView, LoginPage, RefusalView
from daemons.rapid.page.views.frame import with_query
from daemons.rapid.page.visitors import Form, first, own_path, set_looked_at, set_theme
from daemons.rapid.transport.callers import address_of, host_of

# (name, password, address of the client without its port) -> the user; None: the name or the password is wrong
CheckPassword = Callable[[str, str, str], Awaitable[Principal | None]]

_log = get_log(__name__)


@attrs.frozen
class Login:
    _pages: Pages
    _check_password: CheckPassword

    def rows(self) -> Iterator[Call]:
        form = self._pages.form
        yield shown("/ui/login", self.show, "The page on which people log in.")
        yield shown("/ui/keys", self.show_keys, "The page that lists the keys.")
        yield form("/ui/login", self.log_in, "Begin a session.")
        yield form("/ui/logout", self.log_out, "End the session.")
        yield form("/ui/theme", self.set_theme, "Choose light or dark colours.")
        yield form("/ui/seen", self.mark_seen, "Mark failures as seen by this visitor.")

    async def show(self, asked: Asked) -> Response:
        return self._form(asked.http, LoginPage("", own_path(asked.http.query_params.get("back", ""))))

    async def log_in(self, asked: Asked, form: Form) -> Response:
        """Raises: RequestRefused: 429, 503: the password was not checked."""
        http = asked.http
        name, back = first(form, "name"), own_path(first(form, "back"))
        # without the port, or each connection would have attempts of its own
        caller = await self._check_password(name, first(form, "password"), host_of(http))
        if caller is None:
            return self._form(http, LoginPage(name, back, "The name or the password is wrong."), 401)
        response = replies.see(back)
        self._pages.visitors.log_in(http, caller, response)
        _log.info("page.login", user=caller.name, address=address_of(http))
        return response

    async def log_out(self, asked: Asked, form: Form) -> Response:
        response = replies.see("/ui/login")
        await self._pages.visitors.log_out(asked.http, response)
        return response

    async def set_theme(self, asked: Asked, form: Form) -> Response:
        response = replies.see(own_path(first(form, "back")))
        set_theme(response, first(form, "theme"))
        return response

    async def mark_seen(self, asked: Asked, form: Form) -> Response:
        """Remember in a cookie which failures the visitor has seen."""
        response = replies.see(own_path(first(form, "back")))
        set_looked_at(response, first(form, "until"))
        return response

    async def show_keys(self, asked: Asked) -> Response:
        frame = self._pages.frame(asked.http, None if asked.caller.is_anonymous else asked.caller)
        return replies.page(draw("keys", title="Keys", view=KeysView(), frame=frame))

    def _form(self, http: HttpRequest, view: LoginPage, status: int = 200) -> Response:
        response = replies.page("", status)
        visit = self._pages.visitors.welcome(http, response)
        frame = self._pages.frame(http, None, visit=visit)
        page = replies.page(draw("login", title="Log in", view=view, frame=frame), status)
        page.raw_headers += [header for header in response.raw_headers if header[0] == b"set-cookie"]
        return page

    async def draw_error(self, http: HttpRequest, status: int, error: GantryError) -> Response:
        """An error as a page; whoever is not known is sent to log in."""
        # the script of an open page loads it anew when its stream is refused
        if status == 401 and http.method in ("GET", "HEAD") and not http.url.path.startswith(f"{LIVE}/"):
            back = f"{http.url.path}?{http.url.query}" if http.url.query else http.url.path
            return replies.see(with_query("/ui/login", [("back", back)]))
        session = self._pages.visitors.session(http)
        frame = self._pages.frame(http, None if session is None else session.caller)
        title = {403: "Not allowed", 404: "Not found", 405: "Not possible"}.get(status, "It did not work")
        return replies.page(draw("refused", title=title, view=RefusalView(error.message), frame=frame), status)

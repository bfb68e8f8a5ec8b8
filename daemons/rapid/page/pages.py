"""Draw pages: what stands around each, and what goes into the head of its reply; and the rows of their calls."""

from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import urlencode

import attrs
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from common.access import Role
from common.errors import Unavailable
from common.system.accounts import user_numbered
from common.webaccess.rights import Principal, Right
from daemons.rapid.calls import Asked, Call, Face, Handler
from daemons.rapid.page import replies
from daemons.rapid.page.boards.board import Board
from daemons.rapid.page.reading import cluster_now
from daemons.rapid.page.templates import draw
from daemons.rapid.page.terminal import LinePosition
from daemons.rapid.page.views.boards import Confirmation, DoneLine, DoneView
from daemons.rapid.page.views.frame import Frame, Freshness, HealthLine
from daemons.rapid.page.visitors import Form, Visitors, theme_of

F = TypeVar("F")

FormHandler = Callable[[Asked, Form], Awaitable[Response]]


@attrs.frozen
class Pages:
    visitors: Visitors

    def frame(
        self,
        http: HttpRequest,
        caller: Principal | None,
        *,
        health: HealthLine | None = None,
        stream: str | None = None,
        fresh: Freshness | None = None,
        visit: str = "",
    ) -> Frame:
        """Args: visit: value of the visitor's cookie, if the request does not have it yet."""
        return Frame(
            address_of(http),
            theme_of(http),
            self.visitors.token(visit or self.visitors.visit(http)),
            "" if caller is None else caller.name or "nobody",
            "" if caller is None else rights_in_words(caller),
            self.visitors.session(http) is not None,
            health,
            stream,
            fresh,
        )

    async def page(self, asked: Asked, template: str, title: str, view: object, status: int = 200) -> Response:
        """A page beside the boards, with the line about the cluster."""
        now = await cluster_now(asked.daemons)
        frame = self.frame(asked.http, asked.caller, health=now.health)
        return replies.page(draw(template, title=title, view=view, frame=frame), status)

    async def confirm(self, asked: Asked, view: Confirmation) -> Response:
        """Show what a change would do, before it is done."""
        return await self.page(asked, "confirm", view.question, view)

    async def done(self, asked: Asked, title: str, lines: Iterable[DoneLine], back: str) -> Response:
        """Tell what was done. Args: back: address of the page that shows it."""
        return await self.page(asked, "done", title, DoneView(title, tuple(lines), back))

    def form(self, path: str, handler: FormHandler, summary: str, *rights: Right) -> Call:
        """The row of a form, which is handled only if it comes from a page that its visitor was shown.

        The reply to another one is 403.
        """

        async def handle(asked: Asked) -> Response:
            form = asked.body if isinstance(asked.body, dict) else {}
            self.visitors.check_form(asked.http, form)
            return await handler(asked, form)

        return attrs.evolve(shown(path, handle, summary, *rights), verb="POST", takes=object, changes=True)

    async def board(self, asked: Asked, board: Board[F], now_s: float) -> Response:
        """The whole page of a board. Raises: as its `read`."""
        now = await cluster_now(asked.daemons)
        facts = await board.read(asked, now)
        fresh = Freshness(now_s)
        if board.complete is not None:
            facts = await board.complete(asked, facts)
        following = board.following(facts)
        stream = live_address(asked.http, None if following is None else following.place)
        frame = self.frame(asked.http, asked.caller, health=now.health, stream=stream, fresh=fresh)
        text = draw(board.template, title=board.title(facts), view=board.view(facts, now_s), frame=frame)
        return replies.page(text)


def shown(
    path: str,
    handler: Handler,
    summary: str,
    *rights: Right,
    media_type: str = "text/html",
    only_waits: bool = False,
) -> Call:
    """The row of a page, or of a part of one."""
    return Call(
        "GET",
        path,
        handler,
        summary,
        Face.PAGE,
        rights,
        media_type=media_type,
        only_waits=only_waits,
        tag="Web page",
    )


def address_of(http: HttpRequest) -> str:
    """Path and query of a request."""
    query = http.url.query
    return f"{http.url.path}?{query}" if query else http.url.path


LIVE: Final = "/ui/live"


def live_address(http: HttpRequest, place: LinePosition | None) -> str:
    """The address of the stream of a page. Args: place: from which it follows an output."""
    query = [http.url.query] if http.url.query else []
    if place is not None:
        query.append(urlencode({"output": str(place)}))
    path = LIVE + (http.url.path.removeprefix("/ui") or "/dashboard")
    return f"{path}?{'&'.join(query)}" if query else path


def rights_in_words(caller: Principal) -> str:
    """`operate`, `jobs.read, jobs.cancel`."""
    role = caller.rights.role
    names = [] if role is Role.NONE else [role.name.lower()]
    return ", ".join([*names, *sorted(right.value for right in caller.rights.single)]) or "nothing"


# Names of this machine's users, which texts about ended jobs give as numbers.


def login_of(uid: int) -> str | None:
    """The name of a user; None: the uid has no name, or users cannot be read now."""
    try:
        return _login_of(uid)
    except Unavailable:
        return None


# an error is not remembered
@lru_cache(maxsize=1024)
def _login_of(uid: int) -> str | None:
    found = user_numbered(uid)
    return None if found is None else found.pw_name

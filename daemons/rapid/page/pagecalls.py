"""The calls of the page, for rapid's table.

Source: DESIGN section 15.
"""

import time
from collections.abc import Iterator
from typing import TypeVar

import attrs
import trio
from starlette.responses import Response

from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call
from daemons.rapid.events.hub import Hub
from daemons.rapid.page import replies
from daemons.rapid.page.acts import JobActs, QueueActs, ScheduleActs
from daemons.rapid.page.boards import (
    dashboard,
    filterpage,
    graphpage,
    historypage,
    joblist,
    jobpage,
    lockpage,
    nodepage,
    ratepage,
    resourcepage,
    schedulepage,
)
from daemons.rapid.page.boards.board import Board, Following
from daemons.rapid.page.live.stream import OpenPage, live_response
from daemons.rapid.page.login import Login
from daemons.rapid.page.pages import LIVE, Pages, shown
from daemons.rapid.page.recorder import Recorder
from daemons.rapid.page.scheduling import Scheduling
from daemons.rapid.page.submitting import Submitting
from daemons.rapid.page.templates import StaticFiles
from daemons.rapid.page.terminal import LinePosition
from daemons.rapid.page.views.frame import Frame, HealthLine

F = TypeVar("F")


@attrs.frozen
class PageCalls:
    """All parts of the web page."""

    pages: Pages
    login: Login
    recorder: Recorder
    hub: Hub

    def rows(self) -> list[Call]:
        """The rows for rapid's table."""
        acts = (JobActs, QueueActs, Submitting, ScheduleActs, Scheduling)
        return [*self._visits(), *self._boards(), *(row for kind in acts for row in kind(self.pages).rows())]

    def _visits(self) -> Iterator[Call]:
        yield shown("/ui/static/{name:path}", StaticFiles().show, "A style sheet, a script or an icon.")
        yield shown("/ui/", _show_dashboard, "Lead to the dashboard.")
        yield shown("/ui/find", joblist.find, "Lead to a job by its id, or to those that match.", Right.JOBS_READ)
        yield from self.login.rows()

    def _boards(self) -> Iterator[Call]:
        yield from self._board(dashboard.board(self.recorder))
        yield from self._board(ratepage.board(self.recorder))
        yield from self._board(joblist.BOARD)
        yield from self._board(jobpage.BOARD)
        path, summary = f"{jobpage.BOARD.path}/output", "The output of a job, as a file."
        yield shown(path, jobpage.download, summary, *jobpage.BOARD.rights, media_type="text/plain")
        yield from self._board(lockpage.BOARD)
        yield from self._board(graphpage.BOARD)
        yield from self._board(filterpage.BOARD)
        yield from self._board(historypage.BOARD)
        yield from self._board(schedulepage.BOARD)
        yield from self._board(resourcepage.BOARD)
        yield from self._board(nodepage.BOARD)

    def _board(self, board: Board[F]) -> Iterator[Call]:
        async def show(asked: Asked) -> Response:
            return await self.pages.board(asked, board, time.time())

        async def follow(asked: Asked) -> Response:
            return live_response(self._watched(asked, board))

        live = LIVE + (board.path.removeprefix("/ui") or "/dashboard")
        yield shown(board.path, show, board.summary, *board.rights)
        summary = f"{board.summary.removesuffix('.')}, as it changes."
        yield shown(live, follow, summary, *board.rights, media_type="text/event-stream", only_waits=True)

    def _watched(self, asked: Asked, board: Board[F]) -> OpenPage[F]:
        def frame(health: HealthLine) -> Frame:
            return self.pages.frame(asked.http, asked.caller, health=health)

        async def over() -> None:
            # when other credentials are good no more, the application itself ends the reply
            visitors = self.pages.visitors
            if visitors.session(asked.http) is None:
                await trio.sleep_forever()
            await visitors.sessions.wait_until_over(visitors.visit(asked.http))

        return OpenPage(asked, board, _following(asked), frame, self.hub, lambda: self.recorder.silence, over)


async def _show_dashboard(asked: Asked) -> Response:
    return replies.see("/ui")


def _following(asked: Asked) -> Following | None:
    """The output that the page follows: from the place in its address, or the one that a browser saw last."""
    if "id" not in asked.http.path_params:
        return None
    begin = LinePosition.read(asked.http.query_params.get("output", ""))
    if begin is None:
        return None
    last = LinePosition.read(asked.http.headers.get("last-event-id", "").removeprefix("output-"))
    return Following(int(asked.http.path_params["id"]), last or begin, "times" in asked.http.query_params)

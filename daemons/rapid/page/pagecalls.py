"""The calls of the page, for rapid's table.

Source: DESIGN section 15.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

import attrs
import trio
from starlette.responses import Response

from common.webaccess.rights import Principal, Right
from daemons.rapid.calls import Asked, Call, Face, Handler
from daemons.rapid.events.hub import Hub
from daemons.rapid.page import replies
from daemons.rapid.page.acts import JobActs, QueueActs, ScheduleActs
from daemons.rapid.page.boards import (
    filterpage,
    graphpage,
    historypage,
    joblist,
    jobpage,
    lockpage,
    nodepage,
    resourcepage,
    schedulepage,
)
from daemons.rapid.page.boards.board import Board, Following
from daemons.rapid.page.boards.dashboard import DashboardBoard
from daemons.rapid.page.boards.ratepage import RateBoard
from daemons.rapid.page.live.stream import LiveResponse, OpenPage
from daemons.rapid.page.login import CheckPassword, Login
from daemons.rapid.page.pages import LIVE, Pages
from daemons.rapid.page.recorder import Recorder
from daemons.rapid.page.scheduling import Scheduling
from daemons.rapid.page.sessions import Sessions
from daemons.rapid.page.submitting import Submitting
from daemons.rapid.page.templates import StaticFiles
from daemons.rapid.page.terminal import Place
from daemons.rapid.page.views.frame import Frame, HealthLine
from daemons.rapid.page.visitors import Visitors
from protocol.metrics import DaemonMetrics

F = TypeVar("F")
_TAG: Final = "Web page"
_HTML: Final = "text/html"


@attrs.frozen
class PageCalls:
    """All parts of the web page."""

    pages: Pages
    login: Login
    recorder: Recorder
    hub: Hub

    def rows(self) -> list[Call]:
        """The rows for rapid's table."""
        return [*self._visits(), *self._boards(), *self._acts(), *self._submitting(), *self._schedule_acts()]

    def _visits(self) -> Iterator[Call]:
        files, login = StaticFiles(), self.login
        yield _row("GET", "/ui/static/{name:path}", files.show, "A style sheet, a script or an icon.")
        yield _row("GET", "/ui/", _show_dashboard, "Lead to the dashboard.")
        yield _row("GET", "/ui/login", login.show, "The page on which people log in.")
        yield _row("GET", "/ui/find", joblist.find, "Lead to a job by its id, or to those that match.", Right.JOBS_READ)
        yield _row("GET", "/ui/keys", login.show_keys, "The page that lists the keys.")
        yield _row("POST", "/ui/login", login.log_in, "Begin a session.", is_form=True)
        yield _row("POST", "/ui/logout", login.log_out, "End the session.", is_form=True)
        yield _row("POST", "/ui/theme", login.set_theme, "Choose light or dark colours.", is_form=True)
        yield _row("POST", "/ui/seen", login.mark_seen, "Mark failures as seen by this visitor.", is_form=True)

    def _boards(self) -> Iterator[Call]:
        yield from self._board(DashboardBoard(self.recorder).board())
        yield from self._board(RateBoard(self.recorder).board())
        yield from self._board(joblist.BOARD)
        yield from self._board(jobpage.BOARD)
        summary = "The output of a job, as a file."
        download = jobpage.BOARD.path + "/output"
        yield _row("GET", download, jobpage.download, summary, *jobpage.BOARD.rights, media_type="text/plain")
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
            return LiveResponse(self._watched(asked, board))

        live = LIVE + (board.path.removeprefix("/ui") or "/dashboard")
        yield _row("GET", board.path, show, board.summary, *board.rights)
        summary = f"{board.summary.removesuffix('.')}, as it changes."
        yield _row("GET", live, follow, summary, *board.rights, media_type="text/event-stream", only_waits=True)

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

    def _acts(self) -> Iterator[Call]:
        jobs, queue = JobActs(self.pages), QueueActs(self.pages)
        own = Right.JOBS_SUBMIT
        yield _row("POST", "/ui/jobs/cancel", jobs.cancel, "Cancel jobs.", Right.JOBS_CANCEL, own, is_form=True)
        yield _row("POST", "/ui/jobs/kill", jobs.kill, "Kill jobs.", Right.JOBS_CANCEL, own, is_form=True)
        yield _row(
            "POST", "/ui/jobs/priority", jobs.prioritize, "Change priorities.", Right.JOBS_PRIORITY, own, is_form=True
        )
        for verb, act in (("hold", jobs.hold), ("release", jobs.release)):
            summary = f"{verb.capitalize()} jobs."
            yield _row("POST", f"/ui/jobs/{verb}", act, summary, Right.JOBS_PRIORITY, own, is_form=True)
        for name, act, summary in (
            ("rerun", jobs.rerun, "Run ended jobs again."),
            ("rerun-dependents", jobs.rerun_dependents, "Run ended jobs and their dependents again."),
            ("rerun-from-failed", jobs.rerun_from_failed, "Run failed jobs again from the failed opcode on."),
        ):
            yield _row("POST", f"/ui/jobs/{name}", act, summary, own, is_form=True)
        yield _row(
            "POST", "/ui/jobs/archive", jobs.archive, "Archive ended jobs.", Right.JOBS_ARCHIVE, own, is_form=True
        )
        yield _row("POST", "/ui/filters/pause", queue.pause, "Pause jobs.", Right.FILTERS_WRITE, is_form=True)
        yield _row("POST", "/ui/filters/delete", queue.delete, "Delete a rule.", Right.FILTERS_WRITE, is_form=True)
        yield _row("POST", "/ui/queue", queue.drain, "Drain or open the queue.", Right.QUEUE_WRITE, is_form=True)

    def _submitting(self) -> Iterator[Call]:
        to, own = Submitting(self.pages), Right.JOBS_SUBMIT
        yield _row("GET", "/ui/submit", to.show, "The form with jobs to submit.", own)
        yield _row("POST", "/ui/submit", to.submit, "Look at jobs to submit, or submit them.", own, is_form=True)

    def _schedule_acts(self) -> Iterator[Call]:
        to, own = ScheduleActs(self.pages), Right.JOBS_SUBMIT
        yield _row("POST", "/ui/schedules/pause", to.pause, "Pause a schedule.", own, is_form=True)
        yield _row("POST", "/ui/schedules/resume", to.resume, "Let a schedule go on.", own, is_form=True)
        yield _row("POST", "/ui/schedules/run", to.run, "Run a schedule's job now.", own, is_form=True)
        yield _row("POST", "/ui/schedules/delete", to.delete, "Delete a schedule.", own, is_form=True)
        form = Scheduling(self.pages)
        yield _row("GET", "/ui/schedules/edit", form.show, "The form of a schedule.", own)
        yield _row("POST", "/ui/schedules/edit", form.save, "Look at a schedule, or save it.", own, is_form=True)


def make_page(
    check_password: CheckPassword,
    named: Callable[[str], Principal | None],
    read_metrics: Callable[[], Awaitable[DaemonMetrics]],
    hub: Hub,
) -> PageCalls:
    """The page with its parts; see their classes for the arguments."""
    pages = Pages(Visitors(Sessions(named, trio.current_time)))
    return PageCalls(pages, Login(pages, check_password), Recorder(read_metrics), hub)


async def _show_dashboard(asked: Asked) -> Response:
    return replies.see("/ui")


def _following(asked: Asked) -> Following | None:
    """The output that the page follows: from the place in its address, or the one that a browser saw last."""
    if "id" not in asked.http.path_params:
        return None
    begin = Place.read(asked.http.query_params.get("output", ""))
    if begin is None:
        return None
    last = Place.read(asked.http.headers.get("last-event-id", "").removeprefix("output-"))
    return Following(int(asked.http.path_params["id"]), last or begin, "times" in asked.http.query_params)


def _row(
    verb: str,
    path: str,
    handler: Handler,
    summary: str,
    *rights: Right,
    is_form: bool = False,
    media_type: str = _HTML,
    only_waits: bool = False,
) -> Call:
    return Call(
        verb,
        path,
        handler,
        summary,
        Face.PAGE,
        rights,
        takes=object if is_form else None,
        media_type=media_type,
        only_waits=only_waits,
        tag=_TAG,
        changes=is_form,
    )

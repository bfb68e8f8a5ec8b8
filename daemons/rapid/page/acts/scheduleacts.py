"""Pause schedules, let them go on, and run them by hand."""

import uuid
from collections.abc import Awaitable, Callable

import attrs
from starlette.responses import Response

from common.errors import NotFound
from daemons.rapid.calls import Asked
from daemons.rapid.page.pages import Pages
from daemons.rapid.page.views.boards import Confirmation, Done, DoneLine
from daemons.rapid.page.views.links import Piece, linked
from daemons.rapid.page.views.scheduleview import when_words
from daemons.rapid.page.visits.login import form_of
from daemons.rapid.page.visits.visitors import Form, first
from protocol.luxi.schedules import ListSchedules, PauseSchedule, RunSchedule

_BACK = "/ui/schedules"


@attrs.frozen
class _Wish:
    path: str
    question: str
    told: str
    do: str
    title: str


_PAUSE = _Wish("pause", "Pause", "It would make no runs; its jobs go on.", "pause it", "Paused")
_RESUME = _Wish(
    "resume", "Resume", "It would make runs again; missed ones are not made up for.", "resume it", "Resumed"
)
_RUN = _Wish("run", "Run", "Its job would be submitted now; its times stay as they are.", "run it now", "Submitted")


@attrs.frozen
class ScheduleActs:
    _pages: Pages

    async def pause(self, asked: Asked) -> Response:
        """Raises: Refused: a forged form. NotFound: there is no such schedule."""

        async def do(form: Form) -> tuple[Piece, ...]:
            await asked.daemons.luxid(PauseSchedule(first(form, "name"), True))
            return (Piece(f"'{first(form, 'name')}' makes no runs until it is resumed"),)

        return await self._ask_or_do(asked, _PAUSE, do)

    async def resume(self, asked: Asked) -> Response:
        """Raises: as `pause`."""

        async def do(form: Form) -> tuple[Piece, ...]:
            view = await asked.daemons.luxid(PauseSchedule(first(form, "name"), False))
            return (Piece(f"'{view.schedule.name}' makes runs again: {when_words(view.schedule)}"),)

        return await self._ask_or_do(asked, _RESUME, do)

    async def run(self, asked: Asked) -> Response:
        """Raises: as `pause`; else as a submission."""

        async def do(form: Form) -> tuple[Piece, ...]:
            # a form that is sent twice is one run
            job_id = await asked.daemons.luxid(RunSchedule(first(form, "name"), first(form, "key")))
            return linked(f"job {job_id} is a run of '{first(form, 'name')}'")

        return await self._ask_or_do(asked, _RUN, do)

    async def _ask_or_do(
        self, asked: Asked, wish: _Wish, do: Callable[[Form], Awaitable[tuple[Piece, ...]]]
    ) -> Response:
        form = form_of(asked)
        self._pages.visitors.check_form(asked.http, form)
        name = first(form, "name")
        if first(form, "sure") == "yes":
            done = Done(wish.title, (DoneLine(await do(form)),), _BACK)
            return await self._pages.page(asked, "done", done.title, done)
        if not await asked.daemons.luxid(ListSchedules(0, (name,))):
            raise NotFound(f"there is no schedule {name!r:.60}")
        view = Confirmation(
            f"{wish.question} schedule {name}?",
            None,
            0,
            f"{_BACK}/{wish.path}",
            (("name", name), ("key", str(uuid.uuid4()))),
            wish.do,
            _BACK,
            told=wish.told,
        )
        return await self._pages.page(asked, "confirm", view.question, view)

"""Add and change schedules on the page: a form, a look at its next runs, and the change.

Theory. As for `daemons.rapid.page.submitting`: only what was shown is done. A form that is sent twice finds the
schedule that it has added.
"""

import time
from collections.abc import Iterator
from typing import Final

import attrs
from starlette.responses import Response

from common.conditions import Condition
from common.errors import Conflict, GantryError, NotFound, PreconditionFailed
from common.schedules.schedule import Schedule
from common.system.inthread import in_thread
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call
from daemons.rapid.page import jobforms
from daemons.rapid.page.jobforms import Texts
from daemons.rapid.page.pages import Pages, shown
from daemons.rapid.page.scheduleforms import (
    FIELDS,
    ReadSchedule,
    filled,
    is_as_wished,
    read_schedule,
    spoken_of,
    time_fields,
)
from daemons.rapid.page.submitting import CHANGED, TOLD_IN_FORM, with_file
from daemons.rapid.page.views.boards import DoneLine, FormField, ScheduleFormView
from daemons.rapid.page.views.frame import TextPart
from daemons.rapid.page.views.things import when_words
from daemons.rapid.page.visitors import Form, first
from daemons.rapid.refusals import status_of
from protocol.luxi.queue import AddSchedule, ChangeSchedule, ListSchedules, ScheduleWish

_PATH: Final = "/ui/schedules"
_CHANGED_MEANWHILE: Final = (
    "Somebody has changed the schedule since this form was opened, so nothing was changed. Open it again to see what "
    "it is now; your texts are still here."
)


@attrs.frozen
class Scheduling:
    _pages: Pages

    def rows(self) -> Iterator[Call]:
        own = Right.JOBS_SUBMIT
        yield shown(f"{_PATH}/edit", self._show, "The form of a schedule.", own)
        yield self._pages.form(f"{_PATH}/edit", self._save, "Look at a schedule, or save it.", own)

    async def _show(self, asked: Asked) -> Response:
        """The form, empty, or filled with a schedule. Raises: NotFound."""
        query = asked.http.query_params
        name, kind = query.get("name", ""), "plan" if query.get("kind") == "plan" else "command"
        if not name:
            return await self._form(asked, Texts({"kind": kind}), None)
        there = await _found(asked, name)
        texts = filled(there)
        if query.get("kind"):
            texts = Texts({**texts.values, "kind": kind})
        return await self._form(asked, texts, there)

    async def _save(self, asked: Asked, form: Form) -> Response:
        """Look at the form, or add or change the schedule. Raises: NotFound."""
        texts = with_file(Texts.of(form))
        there = await _found(asked, texts["of"]) if texts["of"] else None
        read = await in_thread(read_schedule, texts, there, time.time())
        if read.wish is None:
            return await self._form(asked, texts, there, read, status=400)
        if first(form, "sure") != "yes":
            return await self._form(asked, texts, there, read)
        if texts["seen"] != texts.digest(FIELDS):
            return await self._form(asked, texts, there, read, wrong=CHANGED)
        return await self._send(asked, texts, there, read, read.wish)

    async def _send(
        self, asked: Asked, texts: Texts, there: Schedule | None, read: ReadSchedule, wish: ScheduleWish
    ) -> Response:
        try:
            if there is None:
                view = await asked.daemons.luxid(AddSchedule(wish))
            else:
                condition = Condition(tags=(texts["tag"],)) if texts["tag"] else None
                view = await asked.daemons.luxid(ChangeSchedule(wish, condition))
        except GantryError as error:
            if error.code == PreconditionFailed.code:
                return await self._form(asked, texts, there, read, wrong=_CHANGED_MEANWHILE, status=412)
            if status_of(error) not in TOLD_IN_FORM:
                raise
            if there is None and error.code == Conflict.code and await _is_there(asked, wish):
                told = f"this form was sent before: there is the schedule '{wish.name}'"
                return await self._done(asked, "Added", told)
            return await self._refused(asked, texts, there, read, error)
        told = f"'{view.schedule.name}' makes runs: {when_words(view.schedule)}"
        return await self._done(asked, "Added" if there is None else "Changed", told)

    async def _done(self, asked: Asked, title: str, told: str) -> Response:
        return await self._pages.done(asked, title, [DoneLine((TextPart(told),))], _PATH)

    async def _refused(
        self, asked: Asked, texts: Texts, there: Schedule | None, read: ReadSchedule, error: GantryError
    ) -> Response:
        field = spoken_of(error.message)
        if field:
            read = ReadSchedule(wrong={field: error.message}, read=read.read)
        return await self._form(
            asked, texts, there, read, wrong="" if field else error.message, status=status_of(error)
        )

    async def _form(
        self,
        asked: Asked,
        texts: Texts,
        there: Schedule | None,
        read: ReadSchedule | None = None,
        *,
        wrong: str = "",
        status: int = 200,
    ) -> Response:
        marks = {} if read is None else read.wrong
        is_looked_at = read is not None and read.wish is not None
        jobs = None if read is None or not is_looked_at else read.read
        view = ScheduleFormView(
            "Add a schedule" if there is None else f"Change schedule {there.name}",
            FormField("name", "name of the schedule", texts["name"], marks.get("name", ""), "nightly"),
            "" if there is None else there.name,
            texts.is_plan,
            time_fields(texts, marks),
            jobforms.command_fields(texts, {} if texts.is_plan else marks, is_once=False),
            jobforms.plan_field(texts, marks if texts.is_plan else {}),
            texts["plan.filename"],
            texts["was"],
            texts["tag"] or ("" if there is None else there.tag),
            wrong,
            is_looked_at,
            () if jobs is None else jobs.looks(),
            read.next if read is not None else (),
            read.note if read is not None else "",
            texts.digest(FIELDS) if is_looked_at else "",
        )
        return await self._pages.page(asked, "schedule", view.title, view, status)


async def _found(asked: Asked, name: str) -> Schedule:
    """Raises: NotFound."""
    for view in await asked.daemons.luxid(ListSchedules(0, (name,))):
        return view.schedule
    raise NotFound(f"there is no schedule {name!r:.60}")


async def _is_there(asked: Asked, wish: ScheduleWish) -> bool:
    views = await asked.daemons.luxid(ListSchedules(0, (wish.name,)))
    return any(is_as_wished(view.schedule, wish) for view in views)

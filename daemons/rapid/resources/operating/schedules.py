"""Schedules over HTTP.

Source: DESIGN sections 15 and 16.
"""

from typing import Final

from starlette.responses import Response

from common.errors import NotFound
from daemons.rapid.calls import Asked, CallParameter, Daemons
from daemons.rapid.resources.parameters import whole, whole_of
from protocol.luxi import queue as luxi
from protocol.luxi.queue import ScheduleView
from protocol.rapid.cluster import ScheduleForm, ScheduleList, StartedRun

NEXT: Final = whole("next", "How many next runs are told of each schedule.", default=3, high=100)
IF_NONE_MATCH: Final = CallParameter(
    "If-None-Match", "With `*` a schedule is added; one of this name is not changed, but refused.", place="header"
)
IF_MATCH: Final = CallParameter(
    "If-Match", "With `*` a schedule is changed; if there is none of this name it is refused.", place="header"
)
_ANY: Final = "*"


class ScheduleCalls:
    """The calls about schedules."""

    async def list_schedules(self, asked: Asked) -> ScheduleList:
        return ScheduleList(await asked.daemons.luxid(luxi.ListSchedules(_next_count(asked))))

    async def get_schedule(self, asked: Asked) -> ScheduleView:
        """Raises: NotFound."""
        return await _find(asked.daemons, _name(asked), _next_count(asked))

    async def set_schedule(self, asked: Asked) -> ScheduleView:
        """Add the schedule, or change it. Raises: InvalidRequest: its words name no instant, its job is malformed."""
        form, name = asked.body_as(ScheduleForm), _name(asked)
        wish = luxi.ScheduleWish(
            name=name,
            cron=form.cron,
            zone=form.zone,
            every_s=form.every_s,
            job=form.job,
            overlap=form.overlap,
            missed=form.missed,
            deadline_s=form.deadline_s,
            spread_s=form.spread_s,
        )
        is_there = await _is_there(asked, name)
        return await asked.daemons.luxid(luxi.ChangeSchedule(wish) if is_there else luxi.AddSchedule(wish))

    async def remove_schedule(self, asked: Asked) -> Response:
        """Raises: NotFound."""
        name = _name(asked)
        if not await asked.daemons.luxid(luxi.RemoveScheduleOf(name)):
            raise _none_of(name)
        return Response(status_code=204)

    async def pause(self, asked: Asked) -> ScheduleView:
        """Raises: NotFound."""
        return await asked.daemons.luxid(luxi.PauseSchedule(_name(asked), True))

    async def resume(self, asked: Asked) -> ScheduleView:
        """Raises: NotFound."""
        return await asked.daemons.luxid(luxi.PauseSchedule(_name(asked), False))

    async def run_now(self, asked: Asked) -> StartedRun:
        """Raises: NotFound; else as a submission."""
        return StartedRun(await asked.daemons.luxid(luxi.RunSchedule(_name(asked))))


async def _is_there(asked: Asked, name: str) -> bool:
    """Whether there is such a schedule, or must be one; luxid refuses what then proves wrong."""
    headers = asked.http.headers
    if headers.get(IF_NONE_MATCH.name) == _ANY or headers.get(IF_MATCH.name) == _ANY:
        return headers.get(IF_NONE_MATCH.name) != _ANY
    found = await asked.daemons.luxid(luxi.ListSchedules(0, (name,)))
    return bool(found)


def _next_count(asked: Asked) -> int:
    return whole_of(asked, NEXT) or 0


async def _find(daemons: Daemons, name: str, next_count: int) -> ScheduleView:
    for view in await daemons.luxid(luxi.ListSchedules(next_count, (name,))):
        return view
    raise _none_of(name)


def _none_of(name: str) -> NotFound:
    return NotFound(f"there is no schedule {name!r:.60}; GET /3/schedules lists them")


def _name(asked: Asked) -> str:
    return str(asked.http.path_params["name"])

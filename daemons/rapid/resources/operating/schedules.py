"""Schedules over HTTP.

Source: DESIGN sections 15 and 16.
"""

from starlette.responses import Response

from common.errors import NotFound
from daemons.rapid.calls import Asked, Daemons
from protocol.luxi import schedules as luxi
from protocol.luxi.schedules import ScheduleView
from protocol.rapid.schedules import ScheduleForm, ScheduleList, StartedRun


class ScheduleCalls:
    """The calls about schedules."""

    async def list_schedules(self, asked: Asked) -> ScheduleList:
        return ScheduleList(await asked.daemons.luxid(luxi.ListSchedules()))

    async def get_schedule(self, asked: Asked) -> ScheduleView:
        """Raises: NotFound."""
        return await _find(asked.daemons, _name(asked))

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
        is_there = any(view.schedule.name == name for view in await asked.daemons.luxid(luxi.ListSchedules(0)))
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


async def _find(daemons: Daemons, name: str) -> ScheduleView:
    for view in await daemons.luxid(luxi.ListSchedules()):
        if view.schedule.name == name:
            return view
    raise _none_of(name)


def _none_of(name: str) -> NotFound:
    return NotFound(f"there is no schedule {name!r:.60}; GET /3/schedules lists them")


def _name(asked: Asked) -> str:
    return str(asked.http.path_params["name"])

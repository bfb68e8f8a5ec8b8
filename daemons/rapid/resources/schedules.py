"""Schedules over HTTP.

Source: DESIGN sections 15 and 16.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs
from starlette.responses import Response

from common.errors import NotFound
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call, Daemons, Given
from daemons.rapid.resources.conditions import CONDITIONS, condition_of, tagged
from daemons.rapid.resources.parameters import whole, whole_of
from protocol.luxi import queue as luxi
from protocol.luxi.queue import ScheduleView
from protocol.rapid.cluster import ScheduleForm, ScheduleList, SchedulePatch, StartedRun

NEXT: Final = whole("next", "How many next runs are told of each schedule.", default=3, high=100)


async def list_schedules(asked: Asked) -> ScheduleList:
    return ScheduleList(await asked.daemons.luxid(luxi.ListSchedules(_next_count(asked))))


async def get_schedule(asked: Asked) -> Given:
    """Raises: NotFound."""
    return tagged(await _find(asked.daemons, _name(asked), _next_count(asked)))


async def set_schedule(asked: Asked) -> Given:
    """Add the schedule, or replace it.

    Raises: InvalidRequest: its words name no instant, its job is malformed. RemoteError: the condition does not
        hold.
    """
    wish = _wish(_name(asked), asked.body_as(ScheduleForm))
    view = await asked.daemons.luxid(luxi.SetSchedule(wish, condition_of(asked)))
    return tagged(view)


async def modify_schedule(asked: Asked) -> Given:
    """Raises: NotFound; else as `set_schedule`."""
    patch, cleared = asked.patch_as(SchedulePatch)
    change = luxi.ChangeSchedule(_wish(_name(asked), patch), condition_of(asked), cleared or None)
    view = await asked.daemons.luxid(change)
    return tagged(view)


async def delete_schedule(asked: Asked) -> Response:
    """Raises: NotFound. RemoteError: as `set_schedule`."""
    name = _name(asked)
    if not await asked.daemons.luxid(luxi.RemoveScheduleOf(name, condition_of(asked))):
        raise _none_of(name)
    return Response(status_code=204)


async def pause_schedule(asked: Asked) -> Given:
    """Raises: NotFound."""
    view = await asked.daemons.luxid(luxi.PauseSchedule(_name(asked), True))
    return tagged(view)


async def resume_schedule(asked: Asked) -> Given:
    """Raises: NotFound."""
    view = await asked.daemons.luxid(luxi.PauseSchedule(_name(asked), False))
    return tagged(view)


async def run_schedule(asked: Asked) -> StartedRun:
    """Raises: NotFound; else as a submission."""
    return StartedRun(await asked.daemons.luxid(luxi.RunSchedule(_name(asked))))


def _wish(name: str, form: ScheduleForm | SchedulePatch) -> luxi.ScheduleRequest:
    return luxi.ScheduleRequest(name=name, **attrs.asdict(form, recurse=False))


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


def rows() -> Sequence[Call]:
    """The calls about schedules."""
    one = "/3/schedules/{name}"
    read = partial(Call, "GET", tag="schedules", rights=(Right.JOBS_READ,), parameters=(NEXT,))
    change = partial(Call, tag="schedules", rights=(Right.JOBS_SUBMIT,), errors=(404,), changes=True)
    view = partial(change, gives=ScheduleView, is_tagged=True)
    edit = partial(view, parameters=CONDITIONS, errors=(404, 409, 412))
    return [
        read(
            "/3/schedules",
            list_schedules,
            "List the schedules with their next runs, without the opcodes of their jobs.",
            gives=ScheduleList,
        ),
        read(one, get_schedule, "Show a schedule with its job.", gives=ScheduleView, is_tagged=True, errors=(404,)),
        edit("PUT", one, set_schedule, "Add or replace a schedule.", takes=ScheduleForm),
        edit("PATCH", one, modify_schedule, "Change parts of a schedule.", takes=SchedulePatch, merges=True),
        change(
            "DELETE",
            one,
            delete_schedule,
            "Remove a schedule; its jobs stay.",
            status=204,
            parameters=CONDITIONS,
            errors=(404, 412),
        ),
        view("POST", f"{one}/pause", pause_schedule, "Make no runs from now on."),
        view("POST", f"{one}/resume", resume_schedule, "Make runs again; missed ones are not made up for."),
        change("POST", f"{one}/run", run_schedule, "Submit the schedule's job now.", gives=StartedRun),
    ]

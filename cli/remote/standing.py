"""The table of `requests`, for what stands for long: schedules and counted resources.

Source: DESIGN sections 15 and 16.
"""

from cli.remote.requests import carry_out
from common.errors import NotFound, RemoteError
from common.ids import JobId
from common.queue.terms import Use
from protocol.luxi import resources, schedules
from protocol.rapid.clients import standingcalls
from protocol.rapid.clients.blocking import RapidClient


@carry_out.register
def _(request: schedules.ListSchedules, client: RapidClient) -> tuple[schedules.ScheduleView, ...]:
    if request.names is None:
        return client.run(standingcalls.list_schedules(request.next_count)).schedules
    found = (_schedule_named(name, request.next_count, client) for name in request.names)
    return tuple(view for view in found if view is not None)


def _schedule_named(name: str, next_count: int, client: RapidClient) -> schedules.ScheduleView | None:
    try:
        return client.run(standingcalls.get_schedule(name, next_count))
    except RemoteError as error:
        if error.code != NotFound.code:
            raise
        return None


@carry_out.register
def _(request: schedules.AddSchedule, client: RapidClient) -> schedules.ScheduleView:
    return client.run(standingcalls.add_schedule(request.wish))


@carry_out.register
def _(request: schedules.ChangeSchedule, client: RapidClient) -> schedules.ScheduleView:
    return client.run(standingcalls.change_schedule(request.wish))


@carry_out.register
def _(request: schedules.PauseSchedule, client: RapidClient) -> schedules.ScheduleView:
    return client.run(standingcalls.pause_schedule(request.name, is_paused=request.is_paused))


@carry_out.register
def _(request: schedules.RunSchedule, client: RapidClient) -> JobId:
    return client.run(standingcalls.run_schedule(request.name)).id


@carry_out.register
def _(request: schedules.RemoveScheduleOf, client: RapidClient) -> bool:
    try:
        client.run(standingcalls.remove_schedule(request.name))
    except RemoteError as error:
        if error.code != NotFound.code:
            raise
        return False
    return True


@carry_out.register
def _(request: resources.ReadResourceUse, client: RapidClient) -> tuple[resources.ResourceUse, ...]:
    return client.run(standingcalls.list_resources()).resources


@carry_out.register
def _(request: resources.SetResource, client: RapidClient) -> None:
    client.run(standingcalls.set_resource(request.resource))


@carry_out.register
def _(request: resources.RemoveResource, client: RapidClient) -> None:
    client.run(standingcalls.remove_resource(Use(request.node, request.name, 1).key))

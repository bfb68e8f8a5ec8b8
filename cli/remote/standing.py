"""The table of `requests`, for what stands for long: schedules and counted resources.

Source: DESIGN sections 15 and 16.
"""

from cli.remote.requests import carry_out
from common.errors import NotFound, RemoteError
from common.ids import JobId
from common.queue.terms import Use
from protocol.luxi import queue
from protocol.rapid.clients import calls
from protocol.rapid.clients.blocking import RapidClient


@carry_out.register
def _(request: queue.ListSchedules, client: RapidClient) -> tuple[queue.ScheduleView, ...]:
    if request.names is None:
        return client.run(calls.list_schedules(request.next_count)).schedules
    found = (_schedule_named(name, request.next_count, client) for name in request.names)
    return tuple(view for view in found if view is not None)


def _schedule_named(name: str, next_count: int, client: RapidClient) -> queue.ScheduleView | None:
    try:
        return client.run(calls.get_schedule(name, next_count))
    except RemoteError as error:
        if error.code != NotFound.code:
            raise
        return None


@carry_out.register
def _(request: queue.AddSchedule, client: RapidClient) -> queue.ScheduleView:
    return client.run(calls.add_schedule(request.wish))


@carry_out.register
def _(request: queue.ChangeSchedule, client: RapidClient) -> queue.ScheduleView:
    return client.run(calls.change_schedule(request.wish))


@carry_out.register
def _(request: queue.PauseSchedule, client: RapidClient) -> queue.ScheduleView:
    return client.run(calls.pause_schedule(request.name, is_paused=request.is_paused))


@carry_out.register
def _(request: queue.RunSchedule, client: RapidClient) -> JobId:
    return client.run(calls.run_schedule(request.name)).id


@carry_out.register
def _(request: queue.RemoveScheduleOf, client: RapidClient) -> bool:
    try:
        client.run(calls.remove_schedule(request.name))
    except RemoteError as error:
        if error.code != NotFound.code:
            raise
        return False
    return True


@carry_out.register
def _(request: queue.ReadResourceUse, client: RapidClient) -> tuple[queue.ResourceUse, ...]:
    return client.run(calls.list_resources()).resources


@carry_out.register
def _(request: queue.SetResource, client: RapidClient) -> None:
    client.run(calls.set_resource(request.resource))


@carry_out.register
def _(request: queue.RemoveResource, client: RapidClient) -> None:
    client.run(calls.remove_resource(Use(request.node, request.name, 1).key))

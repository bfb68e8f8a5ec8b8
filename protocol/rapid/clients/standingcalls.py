"""The calls about what stands in a cluster for long: schedules and counted resources.

Source: DESIGN sections 15 and 16.
"""

from typing import Final

import attrs

from common.resources import Resource
from common.wire import unstructure
from protocol.luxi.resources import ResourceUse
from protocol.luxi.schedules import ScheduleView, ScheduleWish
from protocol.rapid.clients.httpcall import HttpCall, post, segment
from protocol.rapid.resources import ResourceList, TotalWish
from protocol.rapid.schedules import ScheduleForm, ScheduleList, StartedRun

_ADDED: Final = {"If-None-Match": "*"}
_CHANGED: Final = {"If-Match": "*"}


def list_schedules(next_count: int) -> HttpCall[ScheduleList]:
    return HttpCall("GET", "/3/schedules", ScheduleList, {"next": str(next_count)})


def get_schedule(name: str, next_count: int) -> HttpCall[ScheduleView]:
    return HttpCall("GET", _schedule(name), ScheduleView, {"next": str(next_count)})


def add_schedule(wish: ScheduleWish) -> HttpCall[ScheduleView]:
    """Refused if there is one of this name."""
    return _put_schedule(wish, _ADDED)


def change_schedule(wish: ScheduleWish) -> HttpCall[ScheduleView]:
    """Refused if there is none of this name."""
    return _put_schedule(wish, _CHANGED)


def _put_schedule(wish: ScheduleWish, headers: dict[str, str]) -> HttpCall[ScheduleView]:
    form = ScheduleForm(**{field.name: getattr(wish, field.name) for field in attrs.fields(ScheduleForm)})
    path, body = _schedule(wish.name), unstructure(form)
    return HttpCall("PUT", path, ScheduleView, body=body, headers=headers, is_repeatable=False)


def pause_schedule(name: str, *, is_paused: bool) -> HttpCall[ScheduleView]:
    return post(f"{_schedule(name)}/{'pause' if is_paused else 'resume'}", ScheduleView, is_repeatable=True)


def run_schedule(name: str) -> HttpCall[StartedRun]:
    return post(f"{_schedule(name)}/run", StartedRun)


def remove_schedule(name: str) -> HttpCall[None]:
    return HttpCall("DELETE", _schedule(name), type(None), is_repeatable=False)


def _schedule(name: str) -> str:
    return f"/3/schedules/{segment(name)}"


def list_resources() -> HttpCall[ResourceList]:
    return HttpCall("GET", "/3/resources", ResourceList)


def set_resource(resource: Resource) -> HttpCall[ResourceUse]:
    wish = unstructure(TotalWish(resource.total, resource.unit))
    return HttpCall("PUT", _resource(resource.key), ResourceUse, body=wish)


def remove_resource(key: str) -> HttpCall[None]:
    return HttpCall("DELETE", _resource(key), type(None), is_repeatable=False)


def _resource(key: str) -> str:
    return f"/3/resources/{segment(key)}"

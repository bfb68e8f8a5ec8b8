"""Counted resources over HTTP.

Source: DESIGN sections 15 and 16.
"""

from collections.abc import Sequence
from functools import partial

import attrs
from starlette.responses import Response

from common.conditions import Condition
from common.errors import NotFound
from common.queue.terms import Use, read_use
from common.resources import Resource, Unit
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call, Daemons, Given
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.conditions import CONDITIONS, condition_of, merge, tagged
from protocol.luxi import queue as luxi
from protocol.luxi.queue import ResourceUse
from protocol.rapid.cluster import ResourceList, TotalPatch, TotalWish


async def list_resources(asked: Asked) -> ResourceList:
    return ResourceList(await asked.daemons.luxid(luxi.ReadResourceUse()))


async def get_resource(asked: Asked) -> Given:
    """Raises: NotFound. InvalidRequest: the path names no resource."""
    return tagged(await _find(asked.daemons, _named(asked)))


async def set_resource(asked: Asked) -> Given:
    """Set its total; a resource of a new name comes to be by it.

    Raises: InvalidRequest. Denied. RemoteError: the condition does not hold.
    """
    wish, named = asked.body_as(TotalWish), _named(asked)
    resource = Resource(named.node, named.resource, wish.total, wish.unit)
    return tagged(await _set(asked.daemons, named, resource, condition_of(asked)))


async def modify_resource(asked: Asked) -> Given:
    """Raises: NotFound. PreconditionFailed: the condition does not hold. Else as `set_resource`."""
    patch, cleared = asked.patch_as(TotalPatch)
    named = _named(asked)
    if "total" in cleared:
        raise RequestRefused(400, f"resource '{named.key}' cannot be without a total; DELETE removes it")

    async def replace(before: ResourceUse, condition: Condition) -> ResourceUse:
        there = before.resource
        unit = Unit.COUNT if "unit" in cleared else patch.unit or there.unit
        total = there.total if patch.total is None else patch.total
        return await _set(asked.daemons, named, attrs.evolve(there, total=total, unit=unit), condition)

    read = partial(_find, asked.daemons, named)
    return tagged(await merge(asked, f"resource '{named.key}'", read, replace))


async def delete_resource(asked: Asked) -> Response:
    """Raises: NotFound. RemoteError: as `set_resource`."""
    named = _named(asked)
    await asked.daemons.luxid(luxi.RemoveResource(named.node, named.resource, condition_of(asked)))
    return Response(status_code=204)


async def _set(daemons: Daemons, named: Use, resource: Resource, condition: Condition | None) -> ResourceUse:
    """The resource as it was set, whatever others have made of it since; with its users now."""
    await daemons.luxid(luxi.SetResource(resource, condition))
    return attrs.evolve(await _find(daemons, named), resource=resource, tag=resource.tag)


async def _find(daemons: Daemons, named: Use) -> ResourceUse:
    for each in await daemons.luxid(luxi.ReadResourceUse()):
        if each.resource.key == named.key:
            return each
    raise _none_of(named)


def _none_of(named: Use) -> NotFound:
    return NotFound(f"there is no resource '{named.key}'; GET /3/resources lists them")


def _named(asked: Asked) -> Use:
    """The resource of the path, as `licences` or `web1:memory`."""
    return read_use(str(asked.http.path_params["key"]), 1)


def rows() -> Sequence[Call]:
    """The calls about counted resources."""
    one = "/3/resources/{key}"
    call = partial(Call, tag="resources")
    read = partial(call, "GET", rights=(Right.JOBS_READ,))
    write = partial(call, rights=(Right.QUEUE_WRITE,), parameters=CONDITIONS, changes=True)
    edit = partial(write, gives=ResourceUse, is_tagged=True)
    return [
        read("/3/resources", list_resources, "List the resources and their users.", gives=ResourceList),
        read(one, get_resource, "Show a resource.", gives=ResourceUse, is_tagged=True, errors=(404,)),
        edit("PUT", one, set_resource, "Set the total of a resource.", takes=TotalWish, errors=(404, 412)),
        edit(
            "PATCH",
            one,
            modify_resource,
            "Change the total of a resource, or its unit.",
            takes=TotalPatch,
            merges=True,
            errors=(404, 409, 412),
        ),
        write("DELETE", one, delete_resource, "Remove a resource.", status=204, errors=(404, 412)),
    ]

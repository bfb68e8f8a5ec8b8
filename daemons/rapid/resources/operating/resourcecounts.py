"""Counted resources over HTTP.

Source: DESIGN sections 15 and 16.
"""

from starlette.responses import Response

from common.errors import NotFound
from common.queue.terms import Use, read_use
from common.resources import Resource
from daemons.rapid.calls import Asked, Daemons
from protocol.luxi import queue as luxi
from protocol.luxi.queue import ResourceUse
from protocol.rapid.cluster import ResourceList, TotalWish


class ResourceCounts:
    """The calls about resources."""

    async def list_resources(self, asked: Asked) -> ResourceList:
        return ResourceList(await asked.daemons.luxid(luxi.ReadResourceUse()))

    async def get_resource(self, asked: Asked) -> ResourceUse:
        """Raises: NotFound. InvalidRequest: the path names no resource."""
        return await _find(asked.daemons, _named(asked))

    async def set_resource(self, asked: Asked) -> ResourceUse:
        """Set its total; a resource of a new name comes to be by it. Raises: InvalidRequest. Denied."""
        wish, named = asked.body_as(TotalWish), _named(asked)
        await asked.daemons.luxid(luxi.SetResource(Resource(named.node, named.resource, wish.total, wish.unit)))
        return await _find(asked.daemons, named)

    async def remove_resource(self, asked: Asked) -> Response:
        """Raises: NotFound."""
        named = _named(asked)
        await asked.daemons.luxid(luxi.RemoveResource(named.node, named.resource))
        return Response(status_code=204)


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

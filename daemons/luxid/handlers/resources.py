"""Read, set and remove counted resources: the totals are wconfd's, the use is counted here.

Source: DESIGN section 16. The methods are ours.
"""

from pathlib import Path
from typing import Final

import attrs

from common.errors import GantryError, NotFound
from common.resources import Resource
from common.system.log import get_log
from daemons.luxid.config.resourcetotals import ResourceTotals
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.handlers.filters import PATIENCE_S
from protocol.client import Client
from protocol.luxi.resources import ReadResourceUse, RemoveResource, ResourceUse, SetResource
from protocol.peer import Peer
from protocol.wconfd import resources as wconfd

_log: Final = get_log(__name__)


@attrs.frozen
class Resources:
    """The methods about resources."""

    _queue: JobQueue
    _totals: ResourceTotals
    # wconfd's socket
    _wconfd: Path

    async def read_resource_use(self, _: ReadResourceUse, __: Peer) -> tuple[ResourceUse, ...]:
        """All resources that are set, those of the cluster first, by name. Cost: linear in the jobs that use them."""
        self._queue.ready.settle_units()
        return tuple(map(self._use, self._queue.units.stock.resources()))

    async def set_resource(self, call: SetResource, peer: Peer) -> None:
        """Durability: the total is wconfd's; and in force here.

        Raises: InvalidRequest: the name or the total is wrong. Unavailable: nothing is changed, or may be.
        """
        async with Client(self._wconfd, daemon="wconfd") as client:
            await client.call_retrying(wconfd.SetResource(call.resource), PATIENCE_S)
        _log.info("resource.set", resource=call.resource.key, total=call.resource.total, **peer.named)
        await self._refresh()

    async def remove_resource(self, call: RemoveResource, peer: Peer) -> None:
        """Raises: NotFound: there is none. Unavailable: nothing is changed, or may be."""
        key = Resource(call.node, call.name, 0).key
        async with Client(self._wconfd, daemon="wconfd") as client:
            if not await client.call_retrying(wconfd.RemoveResource(call.node, call.name), PATIENCE_S):
                raise NotFound(f"there is no resource '{key:.80}'; list them with 'gantry resource list'")
        _log.info("resource.removed", resource=key, **peer.named)
        await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self._totals.refresh()
        except GantryError as error:
            _log.warning("resources.not_read", reason=error, effect="totals stay as they were until wconfd is back")

    def _use(self, resource: Resource) -> ResourceUse:
        units = self._queue.units
        users = tuple(sorted(units.stock.users(resource.key).items()))
        return ResourceUse(resource, units.stock.used(resource.key), users, units.waiting(resource.key))

"""Keeps the nodes up to date with the configuration: each change, in the background, and all of it on request.

Source: wconfd.md 7.5; DESIGN section 12.
"""

from collections.abc import Callable
from typing import Final

import trio

from common.objects.kinds import GroupUuid, NodeUuid
from common.replication import NoLongerMaster
from common.system.log import get_log
from common.system.mastership import Mastership
from daemons.wconfd.core.config.configstate import ConfigState, nodes_of_group
from daemons.wconfd.distribution import Distribution

_RETRY_S: Final = 5.0
# names of nodes in a line of the log
_MOST_NAMES: Final = 10
_log: Final = get_log(__name__)


class Spreading:
    """Spreads the visible state; start `run`.

    Args:
        state: returns the visible state.
        mastership: is lost when a node says that it has another master.
    """

    def __init__(self, distribution: Distribution, state: Callable[[], ConfigState], mastership: Mastership) -> None:
        self._distribution = distribution
        self._state = state
        self._mastership = mastership
        self._changed = trio.Event()
        # nodes that were not reached last
        self._left_out: frozenset[NodeUuid] = frozenset()

    def tell(self) -> None:
        """The visible state has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Send every change to the nodes; first the state at the start."""
        while True:
            self._changed = trio.Event()
            if await self.attempt():
                await self._changed.wait()
            else:
                await trio.sleep(_RETRY_S)

    async def attempt(self, *, anew: bool = False) -> bool:
        """Spread to all nodes; return whether this node's own files could be written. Raises: NoLongerMaster."""
        try:
            await self.spread(None, anew=anew)
        except OSError as error:
            _log.warning("ssconf.unwritten", error=error, retry_s=_RETRY_S)
            return False
        return True

    async def spread(self, group: GroupUuid | None, *, anew: bool) -> tuple[str, ...]:
        """Spread to the nodes of a group, or to all; return the names of the nodes that were not reached.

        Raises: OSError: the files of this node could not be written. NoLongerMaster.
        """
        state = self._state()
        only = None if group is None else nodes_of_group(state.config, group)
        try:
            left_out = await self._distribution.spread(state, only, anew=anew)
        except NoLongerMaster as error:
            raise self._mastership.lose(error) from error
        names = tuple(sorted(node.name for uuid, node in state.config.nodes.items() if uuid in left_out))
        # in the background, a node that stays silent is not told of with every change
        if left_out and (anew or left_out != self._left_out):
            serial = state.config.serial_no
            _log.warning(
                "config.undistributed", nodes=len(left_out), names=",".join(names[:_MOST_NAMES]), serial=serial
            )
        if only is None:
            self._left_out = left_out
        return names

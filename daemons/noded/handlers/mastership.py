"""The master as this node knows it, its epoch, and the daemons of the master on this node.

Theory. The files of ssconf say who is the master, and the epoch who may be; the supervisor runs the daemons that belong
to this node's place. So a new master claims its epoch, sends its ssconf, and then calls the starts and stops, which let
the supervisor look again.

When this node hears of a higher epoch that is not its own, it stops what may still run here of an old mastership, job
processes too: the new master has ended their jobs as failed.

Source: noded.md 6; masterfailover.md 3.
"""

from typing import Final

import trio

from common.daemons import NodeKind
from common.errors import Conflict, GantryError, NotFound, Unavailable
from common.nodes.mastership import allow_no_voting, read_seen
from common.nodes.nodeplace import master_name, place_of
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.masterdaemons import MasterDaemons
from daemons.noded.epochs import Epochs
from daemons.noded.files.nodefiles import read_standing
from protocol.launched import find_killer
from protocol.noded.membership import (
    NO_MASTER,
    ClaimEpoch,
    MasterNodeName,
    NodeProgress,
    NodeStartMasterDaemons,
    NodeStopMaster,
    ReadNodeProgress,
)

# time for the daemons of a master, and for its jobs, to end; the supervisor kills daemons earlier
_END_S: Final = 90.0
_log: Final = get_log(__name__)


class FailoverHandlers:
    """The calls of a failover."""

    def __init__(self, settings: Settings, epochs: Epochs) -> None:
        self._settings = settings
        self._paths = settings.paths
        self._epochs = epochs
        self._daemons = MasterDaemons(settings, find_killer)
        self._stopping = trio.Lock()

    async def master_node_name(self, _: MasterNodeName) -> str:
        """The vote of this node. Raises: NotFound: it has not heard of a master. OSError."""
        name = await in_thread(master_name, self._paths)
        if not name:
            file = self._paths.ssconf_file("master_node")
            raise NotFound(f"{NO_MASTER}: '{file}' is missing or empty; the master sends it when it adds this node")
        return name

    async def claim_epoch(self, call: ClaimEpoch) -> None:
        """Raises: as `Epochs.claim`."""
        await self._epochs.claim(call.epoch, call.master)

    async def standing(self, _: ReadNodeProgress) -> NodeProgress:
        """Raises: DamagedFile, OSError: a copy here cannot be read."""
        return await in_thread(read_standing, self._paths)

    async def start_master_daemons(self, call: NodeStartMasterDaemons) -> None:
        """Let the daemons of the master be started; they need a moment to be ready.

        Raises: Conflict: another node is the master, by this node's ssconf or epoch. Unavailable: nothing here
            starts daemons. DamagedFile, OSError.
        """
        if await in_thread(place_of, self._settings) is not NodeKind.MASTER:
            raise Conflict("this node is not the master by its files of ssconf; send it those that name it first")
        if call.no_voting:
            await in_thread(allow_no_voting, self._settings)
        await in_thread(self._daemons.start)

    async def stop_master(self, _: NodeStopMaster) -> None:
        """Let the daemons of the master be stopped, and its jobs; return when they have ended.

        Raises: Conflict: this node is the master by its own ssconf. Unavailable: they do not end. DamagedFile, OSError.
        """
        if await in_thread(place_of, self._settings) is NodeKind.MASTER:
            raise Conflict("this node is the master by its files of ssconf; send it those of the new master first")
        await self._stop()

    async def follow_epochs(self) -> None:
        """Whenever a higher epoch is seen that is not this node's, stop what runs of an old mastership; for ever."""
        while True:
            has_risen = self._epochs.raised
            try:
                if not (await in_thread(read_seen, self._paths.epoch_file)).is_of(self._settings.cluster.own_name):
                    await self._stop()
            except (GantryError, OSError) as error:
                _log.error("master.not_stopped", reason=error, going_on="its writes are refused by the nodes")
            await has_risen.wait()

    async def _stop(self) -> None:
        async with self._stopping:
            with trio.move_on_after(_END_S) as scope:
                await self._daemons.end()
                await self._daemons.end_jobs()
            if scope.cancelled_caught:
                raise Unavailable(f"the daemons of the master, or its jobs, have not ended within {_END_S:g} s")

"""The master as this node knows it, its epoch, and the daemons of the master on this node.

Theory. The files of ssconf say who is the master, and the epoch who may be; the supervisor runs the daemons that belong
to this node's place. So a new master claims its epoch, sends its ssconf, and then calls the starts and stops, which let
the supervisor look again.

Where systemd runs the daemons, this daemon needs no rights of root. To stop those of the master, it signals them: they
are started again, find that this node is not the master, and end with the exit code that systemd does not restart.
To start them, it writes a file for which a unit of systemd waits (`gantry-master.path`).

When this node hears of a higher epoch that is not its own, it stops what may still run here of an old mastership, job
processes too: the new master has ended their jobs as failed.

Source: noded.md 6; masterfailover.md 3.
"""

import os
import signal
from typing import Final

import trio

from common.daemons import MASTER_DAEMONS, Place
from common.durable.atomicfile import write_file
from common.errors import Conflict, GantryError, Unavailable
from common.installation import has_systemd
from common.nodes.epochs import read_seen
from common.nodes.mastershipnotes import allow_no_voting
from common.nodes.nodeplace import place_of
from common.nodes.ssconffiles import master_name
from common.settings import Settings
from common.system.daemons.running import find_daemon, find_supervisor
from common.system.inthread import in_thread
from common.system.leftjobs import kill_left_jobs
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.noded.epochs import Epochs
from daemons.noded.files.standings import read_standing
from protocol.noded.mastership import (
    ClaimEpoch,
    GetStanding,
    MasterNodeName,
    NodeStartMasterDaemons,
    NodeStopMaster,
    Standing,
)

# time for the daemons of a master, and for its jobs, to end; the supervisor kills daemons earlier
_END_S: Final = 90.0
_log: Final = get_log(__name__)


class MastershipHandlers:
    """The calls of a failover."""

    def __init__(self, settings: Settings, epochs: Epochs) -> None:
        self._settings = settings
        self._paths = settings.paths
        self._epochs = epochs
        self._stopping = trio.Lock()

    async def master_node_name(self, _: MasterNodeName) -> str:
        """The vote of this node; empty: it has never heard of a master. Raises: OSError."""
        return await in_thread(master_name, self._paths)

    async def claim_epoch(self, call: ClaimEpoch) -> None:
        """Raises: as `Epochs.claim`."""
        await self._epochs.claim(call.epoch, call.master)

    async def standing(self, _: GetStanding) -> Standing:
        """Raises: DamagedFile, OSError: a copy here cannot be read."""
        return await in_thread(read_standing, self._paths)

    async def start_master_daemons(self, call: NodeStartMasterDaemons) -> None:
        """Let the daemons of the master be started; they need a moment to be ready.

        Raises: Conflict: another node is the master, by this node's ssconf or epoch. Unavailable: nothing here
            starts daemons. DamagedFile, OSError.
        """
        if await in_thread(place_of, self._settings) is not Place.MASTER:
            raise Conflict("this node is not the master by its files of ssconf; send it those that name it first")
        if call.no_voting:
            await in_thread(allow_no_voting, self._settings)
        await in_thread(self._start)

    async def stop_master(self, _: NodeStopMaster) -> None:
        """Let the daemons of the master be stopped, and its jobs; return when they have ended.

        Raises: Conflict: this node is the master by its own ssconf. Unavailable: they do not end. DamagedFile, OSError.
        """
        if await in_thread(place_of, self._settings) is Place.MASTER:
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
                reason = error.message if isinstance(error, GantryError) else error
                _log.error("master.not_stopped", reason=reason, going_on="its writes are refused by the nodes")
            await has_risen.wait()

    def _start(self) -> None:
        supervisor = find_supervisor(self._paths)
        if supervisor is not None:
            os.kill(supervisor.pid, signal.SIGUSR1)
        elif has_systemd(self._settings.root):
            write_file(self._paths.start_request, b"", mode=0o640)
        else:
            raise Unavailable("nothing on this node starts the daemons of the master; start them there: gantry up")

    async def _stop(self) -> None:
        async with self._stopping:
            with trio.move_on_after(_END_S) as scope:
                await self._end_daemons()
                await self._end_jobs()
            if scope.cancelled_caught:
                raise Unavailable(f"the daemons of the master, or its jobs, have not ended within {_END_S:g} s")

    async def _end_daemons(self) -> None:
        pids = [found.pid for name in MASTER_DAEMONS if (found := await in_thread(find_daemon, self._paths, name))]
        if not pids:
            return
        _log.info("master.stopping", pids=pids)
        supervisor = await in_thread(find_supervisor, self._paths)
        if supervisor is not None:
            os.kill(supervisor.pid, signal.SIGUSR1)
        for pid in pids:
            if supervisor is None:
                _end(pid)
            await _until_ended(pid)

    async def _end_jobs(self) -> None:
        """Kill job processes that an old mastership has left: their jobs are another master's now."""
        pauses = retry_pauses()
        while killed := await in_thread(kill_left_jobs, self._paths.livelocks):
            _log.warning(
                "jobs.killed", pids=sorted(process.pid for process in killed), reason="not the master any more"
            )
            await trio.sleep(next(pauses))


def _end(pid: int) -> None:
    """Raises: Unavailable: it is another user's."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise Unavailable(f"a daemon of the master is another user's, stop it there: kill {pid}") from None


async def _until_ended(pid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(fd)
    finally:
        os.close(fd)

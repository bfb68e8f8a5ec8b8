"""The master as this node knows it, and the daemons of the master on this node.

Theory. The files of ssconf say who is the master, and the supervisor runs the daemons that belong to this node's place.
So a new master first sends its ssconf, then these calls, which let the supervisor look again.

Source: noded.md 6; masterfailover.md 3.
"""

import os
import signal
from pathlib import Path
from typing import Final

import trio

from common.daemons import Place
from common.errors import Conflict, Unavailable
from common.nodes.nodeplace import place_of
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.running import find_daemon, find_supervisor
from protocol.noded.mastership import MasterNodeName, NodeStartMasterDaemons, NodeStopMaster

# of the master alone; luxid first, since it needs the others
MASTER_DAEMONS: Final = ("luxid", "forkserver", "wconfd")
# time for the daemons of a master to end; the supervisor kills them earlier
_END_S: Final = 90.0


class MastershipHandlers:
    """The calls of a failover."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._paths = settings.paths

    async def master_node_name(self, _: MasterNodeName) -> str:
        """The vote of this node. Raises: Unavailable: it knows no master. OSError."""
        return await in_thread(read_master, self._paths.ssconf_file("master_node"))

    async def start_master_daemons(self, _: NodeStartMasterDaemons) -> None:
        """Let the daemons of the master be started; they need a moment to be ready.

        Raises: Conflict: another node is the master by this node's ssconf. Unavailable: no supervisor runs. OSError.
        """
        if await in_thread(place_of, self._settings) is not Place.MASTER:
            raise Conflict("this node is not the master by its files of ssconf; send it those that name it first")
        await in_thread(self._wake_supervisor)

    async def stop_master(self, _: NodeStopMaster) -> None:
        """Let the daemons of the master be stopped; return when they have ended.

        Raises: Conflict: this node is the master by its own ssconf. Unavailable: no supervisor runs, or a daemon does
            not end. OSError.
        """
        if await in_thread(place_of, self._settings) is Place.MASTER:
            raise Conflict("this node is the master by its files of ssconf; send it those of the new master first")
        pids = [found.pid for name in MASTER_DAEMONS if (found := await in_thread(find_daemon, self._paths, name))]
        if not pids:
            return
        await in_thread(self._wake_supervisor)
        with trio.move_on_after(_END_S) as scope:
            for pid in pids:
                await _until_ended(pid)
        if scope.cancelled_caught:
            raise Unavailable(f"the daemons of the master have not ended within {_END_S:g} s")

    def _wake_supervisor(self) -> None:
        supervisor = find_supervisor(self._paths)
        if supervisor is None:
            raise Unavailable(
                "no supervisor runs on this node, and under systemd this node daemon may not start and stop others; "
                "do it there: systemctl start (or stop) gantry-wconfd gantry-forkserver gantry-luxid"
            )
        os.kill(supervisor.pid, signal.SIGUSR1)


def read_master(path: Path) -> str:
    """Return the name of the master. Raises: Unavailable: there is none. OSError."""
    try:
        name = path.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        name = ""
    if not name:
        raise Unavailable(f"this node knows no master: there is nothing in '{path}'")
    return name


async def _until_ended(pid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(fd)
    finally:
        os.close(fd)

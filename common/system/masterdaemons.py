"""Start and end the daemons of the master on this node, and its jobs; for daemons that decide about that.

Theory. The supervisor runs the daemons that belong to this node's place, and looks again when it is told to. Where
systemd runs the daemons, ours need no rights of root. To stop those of the master, they are signalled: they are started
again, find that this node is not the master, and end with the exit code that systemd does not restart. To start them, a
file is written for which a unit of systemd waits (`gantry-master.path`).

Source: noded.md 6; masterfailover.md 3; DESIGN section 14.
"""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from common.daemons import MASTER_DAEMONS
from common.durable.atomicfile import write_file
from common.errors import Unavailable
from common.installation import has_systemd
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.processes import EndLaunched, Process, kill_left_jobs
from common.system.running import find_daemon, find_supervisor
from common.system.shortages import retry_pauses

_log: Final = get_log(__name__)


class MasterDaemons:
    """Those of this node, whoever runs them. Args: find_launcher: finds who ends commands of other users."""

    def __init__(
        self, settings: Settings, find_launcher: Callable[[Path], EndLaunched | None] = lambda path: None
    ) -> None:
        self._settings = settings
        self._find_launcher = find_launcher
        self._paths = settings.paths

    def start(self) -> None:
        """Let them be started, if this node is the master; they need a moment to be ready.

        Raises: Unavailable: nothing here starts daemons. OSError.
        """
        supervisor = find_supervisor(self._paths)
        if supervisor is not None:
            os.kill(supervisor.pid, signal.SIGUSR1)
        elif has_systemd(self._settings.root):
            write_file(self._paths.start_request, b"", mode=0o640)
        else:
            raise Unavailable("nothing on this node starts the daemons of the master; start them there: gantry up")

    def pids(self) -> Sequence[int]:
        """Those that run, in the order of their end. Raises: OSError."""
        return [found.pid for name in MASTER_DAEMONS if (found := find_daemon(self._paths, name))]

    async def end(self) -> None:
        """Let them end by SIGTERM, and wait until none is left.

        Call it when this node is not the master by its files: else they are started again.

        Raises: Unavailable: one is another user's. OSError.
        """
        while pids := await in_thread(self.pids):
            _log.info("master.stopping", pids=pids)
            supervisor = await in_thread(find_supervisor, self._paths)
            if supervisor is not None:
                os.kill(supervisor.pid, signal.SIGUSR1)
            for pid in pids:
                if supervisor is None:
                    send(pid, signal.SIGTERM)
                await until_ended(pid)

    async def kill(self) -> None:
        """End them, with no delay, and wait until none is left. Raises: as `end`."""
        while pids := await in_thread(self.pids):
            _log.warning("master.killed", pids=pids)
            for pid in pids:
                send(pid, signal.SIGKILL)
            for pid in pids:
                await until_ended(pid)

    async def end_jobs(self) -> None:
        """Kill the jobs of this node with what they have started, and wait until none is left."""
        pauses, is_told = retry_pauses(), False
        while True:
            try:
                if not (killed := await in_thread(self._kill_jobs)):
                    return
            except OSError as error:
                if not is_told:
                    _log.error("jobs.not_killed", reason=error, next="again until it succeeds")
                is_told = True
            else:
                pids = sorted(process.pid for process in killed)
                _log.warning("jobs.killed", pids=pids, reason="not the master any more")
            await trio.sleep(next(pauses))

    def _kill_jobs(self) -> frozenset[Process]:
        # the launcher may have come back, or have been switched off
        return kill_left_jobs(self._paths.livelocks, self._find_launcher(self._paths.launcher_socket))


def send(pid: int, number: signal.Signals) -> None:
    """Raises: Unavailable: it is another user's."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise Unavailable(f"a daemon of the master is another user's, stop it there: kill {pid}") from None


async def until_ended(pid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(fd)
    finally:
        os.close(fd)

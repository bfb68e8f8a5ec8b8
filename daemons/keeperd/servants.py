"""The daemons of the master here, as the mastership needs them: started, watched, ended for certain.

Theory. They are ready when luxid's socket takes connections: it is the last one to be started. Each of their ends is
seen through its process, and what it has left tells why: a daemon that was refused by etcd leaves a note. Nothing of a
mastership is left when no process holds a pid file of theirs, and no livelock of a job is held.

Source: lease.md 7.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from common.daemons import MASTER_DAEMONS
from common.errors import GantryError, Unavailable
from common.lease.grant import Grant, is_held, write_grant
from common.nodes.mastership import forget_not_master, read_not_master
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.masterdaemons import MasterDaemons, until_ended
from common.system.running import find_daemon
from common.system.shortages import retry_pauses
from common.system.watch import EventKind, FolderWatch
from daemons.keeperd.core.events import DaemonsEnded, DaemonsFailed, DaemonsReady, Event, FenceRefused
from protocol.launched import find_killer
from protocol.unixsocket import dial, pauses

_SOCKET_COMES: Final = EventKind.CREATE | EventKind.MOVED_TO
# the supervisor gives up the start of one daemon after a minute
_READY_S: Final = 180.0
_log: Final = get_log(__name__)


class Servants:
    """Args: report: is told what became of them."""

    def __init__(self, settings: Settings, report: Callable[[Event], None]) -> None:
        self._settings = settings
        self._paths = settings.paths
        self._daemons = MasterDaemons(settings, find_killer)
        self._report = report

    async def start(self, grant: Grant) -> None:
        """Let the daemons start under this mastership, and watch them until cancelled, or one has ended."""
        epoch = grant.fence.epoch
        try:
            await in_thread(forget_not_master, self._paths)
            await in_thread(write_grant, self._paths.grant_file, grant)
            await self._until_held()
            await in_thread(self._daemons.start)
            with trio.fail_after(_READY_S):
                await self._until_ready()
        except (GantryError, OSError) as error:
            await self._failed(epoch, str(error))
            return
        except trio.TooSlowError:
            await self._failed(epoch, f"they are not ready within {_READY_S:g} s")
            return
        self._report(DaemonsReady(epoch))
        ended = await self.until_one_ends()
        await self._failed(epoch, f"{ended} has ended")

    async def end(self, started_epoch: int) -> None:
        """Remove the grant, and end daemons and jobs; reports their end. Again and again until it succeeds."""
        await self._again(self._end_once)
        self._report(DaemonsEnded(started_epoch))

    async def kill(self, started_epoch: int) -> None:
        """As `end`, without delay."""
        await self._again(self._kill_once)
        self._report(DaemonsEnded(started_epoch))

    async def _end_once(self) -> None:
        await in_thread(self._remove_grant)
        await self._daemons.end()
        await self._daemons.end_jobs()

    async def _kill_once(self) -> None:
        await in_thread(self._remove_grant)
        await self._daemons.kill()
        await self._daemons.end_jobs()

    async def _again(self, work: Callable[[], Awaitable[None]]) -> None:
        retries = retry_pauses()
        while True:
            try:
                await work()
                return
            except (GantryError, OSError) as error:
                _log.error("master.not_stopped", reason=error, going_on="again until it succeeds")
            await trio.sleep(next(retries))

    def _remove_grant(self) -> None:
        self._paths.grant_file.unlink(missing_ok=True)

    async def _until_held(self) -> None:
        """Return when the deadline is there, which another process writes; the daemons would not start before."""
        for pause_s in pauses():
            if await in_thread(is_held, self._paths):
                return
            await trio.sleep(pause_s)

    async def _until_ready(self) -> None:
        """Raises: Unavailable: a daemon says that this node is not the master. OSError."""
        async with FolderWatch(self._paths.sockets, kinds=_SOCKET_COMES) as watch:
            # a socket is made a moment before it takes connections
            for pause_s in pauses():
                if await in_thread(self._serves):
                    return
                if refusal := await in_thread(read_not_master, self._paths):
                    raise Unavailable(refusal)
                with trio.move_on_after(pause_s):
                    await watch.events()

    def _serves(self) -> bool:
        """Whether all daemons run, and luxid takes connections."""
        if len(self._daemons.pids()) < len(MASTER_DAEMONS):
            return False
        try:
            dial(self._paths.query_socket, "luxid").close()
        except GantryError:
            return False
        return True

    async def until_one_ends(self) -> str:
        """Return the name of the daemon; again and again while they cannot be looked for."""
        retries = retry_pauses()
        while True:
            try:
                return await self._first_end()
            except* OSError as failed:
                _log.error("master.not_watched", reason=failed.exceptions[0], going_on="again until it succeeds")
            await trio.sleep(next(retries))

    async def _first_end(self) -> str:
        """Raises: ExceptionGroup: of OSError."""
        ended: list[str] = []
        async with trio.open_nursery() as nursery:

            async def follow(name: str, pid: int | None) -> None:
                if pid is not None:
                    await until_ended(pid)
                ended.append(name)
                nursery.cancel_scope.cancel()

            for name in MASTER_DAEMONS:
                found = await in_thread(find_daemon, self._paths, name)
                nursery.start_soon(follow, name, found.pid if found else None)
        return ended[0]

    async def _failed(self, epoch: int, reason: str) -> None:
        """Report why a daemon does not run; one that was refused by etcd has said so."""
        refusal = await in_thread(read_not_master, self._paths)
        _log.error("master.daemons_failed", epoch=epoch, reason=refusal or reason)
        self._report(FenceRefused(epoch) if refusal else DaemonsFailed(epoch, reason))

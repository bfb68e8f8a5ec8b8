"""The door is open as long as a token can be used: its port listens then, and only then.

Source: DESIGN section 13, "Joining".
"""

import time
from typing import Final

import attrs
import trio

from common.errors import GantryError, explain_os_error
from common.nodes.joining.jointokenfiles import JoinTokenFiles
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from common.system.watch import EventKind, FolderWatch
from daemons.noded.joining.admission import Admission
from daemons.noded.joining.jobs import AddJobs
from daemons.noded.joining.joinapplication import JoinApplication
from daemons.noded.transport.identity import TlsIdentity
from protocol.http.connections import Connections, open_listener

# connections at once; further machines wait
_CLIENTS: Final = 16
_IDLE_S: Final = 30.0
# longest wait without a look at the clock, which somebody may set
_LOOK_S: Final = 300.0
_CHANGES: Final = EventKind.MOVED_TO | EventKind.MOVED_FROM | EventKind.DELETE
_log: Final = get_log(__name__)


class _FolderGone(Exception):
    """The folder of the tokens is gone, as when the node leaves its cluster: it is made again."""


class JoinGate:
    """Opens and closes the port for machines that join."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tokens = JoinTokenFiles(settings.paths)
        jobs = AddJobs(settings.paths.query_socket)
        self._app = JoinApplication(Admission(settings, self._tokens, jobs))
        self._rules = attrs.evolve(settings.noded, max_clients=_CLIENTS, idle_timeout_s=_IDLE_S)
        self._identity = TlsIdentity(settings.paths, needs_caller=False)

    async def run(self) -> None:
        """Open and close the port until cancelled. A fault of disk or port is logged, and waited out."""
        pauses, told = retry_pauses(), ""
        while True:
            try:
                await in_thread(self._tokens.make_folder)
                async with FolderWatch(self._tokens.folder, kinds=_CHANGES) as watch:
                    await self._follow(watch)
            except _FolderGone:
                continue
            except (OSError, GantryError) as error:
                reason = explain_os_error(error) if isinstance(error, OSError) else error.message
                if reason != told:
                    told = reason
                    _log.error("join.closed", reason=reason, going_on="again until it succeeds")
                await trio.sleep(next(pauses))

    async def _follow(self, watch: FolderWatch) -> None:
        while True:
            if await self._open_s() <= 0:
                await self._changed(watch, None)
            else:
                await self._serve(watch)

    async def _serve(self, watch: FolderWatch) -> None:
        """Keep the port open until no token can be used any more. Raises: Unavailable: it is not free."""
        rules = self._settings.noded
        # they serve once: what ends them ends all later connections, too
        connections = Connections(self._app, self._identity, self._rules)
        with open_listener(rules.address, rules.join_port, where="'address' and 'join_port' in [noded]") as listener:
            _log.info("join.open", port=rules.join_port)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connections.serve, listener)
                fault = await self._until_over(watch)
                nursery.cancel_scope.cancel()
        _log.info("join.over", port=rules.join_port)
        if fault is not None:
            raise fault

    async def _until_over(self, watch: FolderWatch) -> Exception | None:
        """Wait until no token can be used any more; return what prevents to know it, which no nursery shall wrap."""
        try:
            while (left_s := await self._open_s()) > 0:
                await self._changed(watch, min(left_s, _LOOK_S))
        except (OSError, GantryError, _FolderGone) as error:
            return error
        return None

    async def _changed(self, watch: FolderWatch, within_s: float | None) -> None:
        """Wait until a token was made or removed, or the time is over."""
        with trio.move_on_after(float("inf") if within_s is None else within_s):
            events = await watch.events()
            if any(event.kind & EventKind.FOLDER_GONE for event in events):
                raise _FolderGone

    async def _open_s(self) -> float:
        """Seconds for which a token can be used; 0: none can."""
        tokens = await in_thread(self._tokens.list)
        return max([0.0, *(token.is_over_at - time.time() for token in tokens)])

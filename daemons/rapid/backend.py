"""The daemons behind rapid: connections that are used again, one for each call under way.

Source: DESIGN section 15.
"""

from pathlib import Path
from typing import Final, TypeVar

from common.access import Role
from common.paths import Paths
from common.webaccess.principal import Principal
from protocol.client import Client
from protocol.messages import Request

R = TypeVar("R")
# connections that are kept open for later calls
_IDLE: Final = 32


class Pool:
    """Connections to one daemon."""

    def __init__(self, path: Path, daemon: str) -> None:
        self._path = path
        self._daemon = daemon
        self._idle: list[Client] = []
        # calls under way
        self.busy = 0

    @property
    def idle(self) -> int:
        """Number of clients kept for later calls."""
        return len(self._idle)

    async def call(self, request: Request[R]) -> R:
        """Raises, Cancellation: as `Client.call`."""
        client = self._idle.pop() if self._idle else Client(self._path, daemon=self._daemon)
        self.busy += 1
        try:
            return await client.call(request)
        finally:
            self.busy -= 1
            # after a failure it has closed its connection, and opens another one
            if len(self._idle) < _IDLE:
                self._idle.append(client)
            else:
                client.close()

    def close(self) -> None:
        """Close the connections that no call uses."""
        while self._idle:
            self._idle.pop().close()


class Backend:
    """luxid and wconfd."""

    def __init__(self, paths: Paths) -> None:
        self.luxid: Final = Pool(paths.query_socket, "luxid")
        self.wconfd: Final = Pool(paths.wconfd_socket, "wconfd")

    def close(self) -> None:
        self.luxid.close()
        self.wconfd.close()


class CallersDaemons:
    """The daemons, called in the name of one caller with one role."""

    def __init__(self, backend: Backend, caller: Principal, role: Role) -> None:
        self._backend = backend
        self._caller = caller
        self._role = role

    async def luxid(self, request: Request[R]) -> R:
        return await self._backend.luxid.call(request)

    async def wconfd(self, request: Request[R]) -> R:
        return await self._backend.wconfd.call(request)

"""A client that asks the present master, whichever node that is, and says who has replied."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Generic, TypeVar

import attrs

from common.errors import GantryError, RemoteError
from common.paths import Paths
from protocol.blocking import BlockingClient
from protocol.messages import Request

R = TypeVar("R")
# pause before all nodes are asked again
_PAUSE_S: Final = 0.05
# limit of one request to one node: a master that hangs has lost its lease long before
_ONE_S: Final = 12.0


@attrs.frozen
class Reply(Generic[R]):
    value: R
    # name of the node
    by: str


class NoReply(Exception):
    """no node has replied in time; the request may have been carried out"""


class Follower:
    """Asks the master.

    Args:
        nodes: name and paths of each installation.
        one_s: limit of one request to one node.
    """

    def __init__(self, nodes: Iterable[tuple[str, Paths]], *, one_s: float = _ONE_S) -> None:
        self._one_s = one_s
        self._nodes = list(nodes)
        # index of the node that has replied last
        self._last = 0

    def luxi(self, request: Request[R], patience_s: float) -> Reply[R]:
        """Send a request to luxid until it is answered; it must be one that may be sent twice.

        Raises: NoReply. RemoteError: the master has refused it.
        """
        return self._ask(request, patience_s, [paths.query_socket for _, paths in self._nodes])

    def wconf(self, request: Request[R], patience_s: float) -> Reply[R]:
        """The same of wconfd."""
        return self._ask(request, patience_s, [paths.wconfd_socket for _, paths in self._nodes])

    def _ask(self, request: Request[R], patience_s: float, sockets: list[Path]) -> Reply[R]:
        deadline = time.monotonic() + patience_s
        said: dict[str, str] = {}
        while True:
            for step in range(len(self._nodes)):
                index = (self._last + step) % len(self._nodes)
                try:
                    value = self._one(request, sockets[index], min(self._one_s, deadline - time.monotonic()))
                except (GantryError, OSError) as error:
                    if isinstance(error, RemoteError) and error.code != "unavailable":
                        raise
                    said[self._nodes[index][0]] = str(error)
                    continue
                self._last = index
                return Reply(value, self._nodes[index][0])
            if time.monotonic() + _PAUSE_S >= deadline:
                raise NoReply(f"{request.METHOD} had no reply within {patience_s:g} s: {said}")
            time.sleep(_PAUSE_S)

    def _one(self, request: Request[R], socket: Path, limit_s: float) -> R:
        with BlockingClient(socket, connect_timeout_s=0) as client:
            return client.call(request, timeout_s=max(limit_s, 0.1))

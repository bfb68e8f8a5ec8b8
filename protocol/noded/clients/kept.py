"""Connections that are kept for the next call to their node.

Theory. A new connection costs a handshake, several times a small call. So the trio client keeps those that node daemons
leave open, the last used first; beyond the limit the one that was not used for longest is closed. A connection of an
old certificate is never used again: the node may have stopped to accept it.
"""

import ssl
from collections.abc import Iterator

from protocol.noded.clients.connection import NodeConnection
from protocol.noded.clients.nodes import NodeAddress


class KeptConnections:
    """Idle connections, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # the one that was not used for longest comes first
        self._idle: list[NodeConnection] = []

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, node: NodeAddress, context: ssl.SSLContext) -> NodeConnection | None:
        """A usable connection to this node, which now belongs to the caller; None: there is none."""
        for connection in list(self._to(node)):
            self._idle.remove(connection)
            if connection.context is context and connection.may_be_kept:
                return connection
            connection.close()
        return None

    def put(self, connection: NodeConnection) -> None:
        """Keep a connection whose call has its reply, or close it if no other call can use it."""
        if connection.may_be_kept:
            self._idle.append(connection)
        else:
            connection.close()
        self.leave_room(self._limit)

    def leave_room(self, most: int) -> None:
        """Close connections until at most `most` are kept."""
        while len(self._idle) > max(most, 0):
            self._idle.pop(0).close()

    def close(self) -> None:
        self.leave_room(0)

    def _to(self, node: NodeAddress) -> Iterator[NodeConnection]:
        return (each for each in reversed(self._idle) if (each.node.ip, each.node.port) == (node.ip, node.port))

"""Who is at the other end of a Unix socket, and whether that user may call.

Source: DESIGN section 4, "Who is calling"; unix(7), SO_PEERCRED.
"""

import os
import socket
import struct
from collections.abc import Set
from typing import Final

import attrs

_CREDENTIALS: Final = struct.Struct("iII")
# linux/socket.h; the socket module has no name for it
_SO_PEERGROUPS: Final = 59
_GROUP: Final = struct.Struct("I")


@attrs.frozen
class Peer:
    """The process at the other end, as the kernel knew it when it connected."""

    pid: int
    uid: int
    gid: int
    # supplementary groups
    groups: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return f"pid={self.pid} uid={self.uid}"


@attrs.frozen
class Access:
    """The users and groups that may call; root and the daemon's own user always may."""

    uids: Set[int] = frozenset()
    gids: Set[int] = frozenset()
    own_uid: int = attrs.field(factory=os.getuid)

    def allows(self, peer: Peer) -> bool:
        """Whether this peer may call; by its user, its group or any supplementary group."""
        if peer.uid in (0, self.own_uid) or peer.uid in self.uids:
            return True
        return not self.gids.isdisjoint({peer.gid, *peer.groups})


def peer_of(sock: socket.socket) -> Peer:
    """The peer of a connected Unix socket."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid, gid, _groups_of(sock))


def _groups_of(sock: socket.socket) -> frozenset[int]:
    try:
        # 1024 is the most that `getsockopt` of Python returns, and room for 256 groups
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 1024)
    except OSError:
        return frozenset()
    return frozenset(group for (group,) in _GROUP.iter_unpack(raw))

"""The process at the other end of a Unix socket.

Source: DESIGN section 4, "Who is calling"; unix(7), SO_PEERCRED.
"""

import os
import socket
import struct
from typing import Final

import attrs

from common.access import Access, Role

_CREDENTIALS: Final = struct.Struct("iII")
# linux/socket.h; the socket module has no name for it
_SO_PEERGROUPS: Final = 59
_GROUP: Final = struct.Struct("I")


@attrs.frozen
class Peer:
    """The process at the other end, as the kernel recorded it when it connected."""

    pid: int
    uid: int
    gid: int
    # supplementary groups
    groups: frozenset[int] = frozenset()
    # role by the daemon's settings
    role: Role = Role.NONE

    @property
    def all_groups(self) -> frozenset[int]:
        return self.groups | {self.gid}

    def __str__(self) -> str:
        return f"pid={self.pid} uid={self.uid}"


def peer_of(sock: socket.socket) -> Peer:
    """The peer of a connected Unix socket."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid, gid, _groups_of(sock))


def with_role(peer: Peer, access: Access) -> Peer:
    """The peer with its role under these settings."""
    return attrs.evolve(peer, role=access.role_of(peer.uid, peer.all_groups))


def own_access() -> Access:
    """Access only for root and the user of this process."""
    return Access(os.getuid())


def _groups_of(sock: socket.socket) -> frozenset[int]:
    try:
        # 1024 bytes are the maximum of Python's `getsockopt`, with room for 256 groups
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 1024)
    except OSError:
        return frozenset()
    return frozenset(group for (group,) in _GROUP.iter_unpack(raw))

"""The process at the other end of a Unix socket.

Source: DESIGN section 4, "Who is calling"; unix(7), SO_PEERCRED.
"""

import os
import socket
import struct
from typing import Final

import attrs

from common.access import Access, Caller, Role
from protocol.speaker import Speaker

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
    # user in whose name the process calls; then `uid`, the groups and the role are of that user
    speaker: Speaker | None = None
    # the process itself, if it speaks for another
    by: "Peer | None" = None

    @property
    def all_groups(self) -> frozenset[int]:
        return self.groups | {self.gid}

    @property
    def caller(self) -> Caller:
        """The user as messages name them."""
        return self.uid if self.speaker is None else self.speaker.name

    @property
    def named(self) -> dict[str, object]:
        """The caller as fields of a log line."""
        return {"uid": self.uid, "client_pid": self.pid, **self.spoken_for}

    @property
    def spoken_for(self) -> dict[str, object]:
        """The user in whose name the process calls, as a field of a log line; empty: in its own."""
        return {} if self.speaker is None else {"speaker": self.speaker.name}

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

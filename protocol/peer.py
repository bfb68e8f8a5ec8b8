"""The process at the other end of a Unix socket.

Source: DESIGN section 4, "Who is calling"; unix(7), SO_PEERCRED.
"""

import os
import socket
import struct
from typing import Final

import attrs

from common.access import Access, Caller, Role
from common.errors import InvalidRequest

# The user in whose name a trusted program calls; ours.
#
# A request may have the key `speaker`: `{"name": "ci", "role": "submit", "login": "builder"}`. luxid then carries out
# the call with that role, and jobs belong to that login. Only root, the daemons' user, and the users in `trusted` of
# `[access]` may send it, and nobody gets more rights by it than the caller has.
#
# Source: DESIGN sections 4 and 15.


@attrs.frozen
class Speaker:
    # name for logs and reason trails: a user or a token of the HTTP interface; "": nobody said a name
    name: str
    role: Role
    # user of this machine who owns the jobs, and as whom commands run; None: no command can be run
    login: str | None = None

    @property
    def wire(self) -> dict[str, object]:
        """The value of the key `speaker`."""
        return {"name": self.name, "role": self.role.word, "login": self.login}


def read_speaker(value: object) -> Speaker:
    """Read the value of the key `speaker`.

    Raises: InvalidRequest: it is malformed; null is, too, so that a caller who means somebody never acts as itself.
    """
    match value:
        case {"name": str(name), "role": str(word), "login": str() | None as login, **others}:
            role = _ROLES.get(word)
            if role is not None and login != "" and not others:
                return Speaker(name, role, login)
        case _:
            pass
    raise InvalidRequest(
        "key 'speaker' must be an object of 'name', 'role' and 'login': a text, one of "
        f"{', '.join(map(repr, _ROLES))}, and a user of this machine or null; got {value!r:.200}"
    )


_ROLES: Final = {role.word: role for role in Role}


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

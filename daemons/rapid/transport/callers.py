"""Who calls: over the Unix socket the kernel says it, else the request does.

Source: DESIGN section 4, "Who is calling", and section 15.
"""

import socket
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import trio
from starlette.requests import Request as HttpRequest

from common.access import Access, Role
from common.system.accounts.users import user_numbered
from common.system.inthread import in_thread
from common.webaccess.principal import Principal
from common.webaccess.rights import Rights
from daemons.rapid.calls import Call, Face
from protocol.http.connections import Describe
from protocol.peer import Peer, peer_of, with_role

_PEER: Final = "peer"
# seconds for which the name of a user of this machine serves
_NAME_FRESH_S: Final = 30.0
_MOST_PEERS: Final = 1000


class Gate(Protocol):
    """Checks the credentials of requests over the network, and the rights of all callers."""

    async def identify(self, http: HttpRequest) -> Principal:
        """The caller of this request; `NOBODY`: it names none.

        Raises: Refused: 400, 401, the credentials are wrong; 429, 503: they could not be checked.
        """
        ...

    def role_for(self, call: Call, caller: Principal) -> Role:
        """The role with which luxid carries out the call. Raises: Refused: 401 or 403, the caller may not make it."""
        ...

    async def wait_until_over(self, caller: Principal) -> None:
        """Return when the caller's password or token is good no more, or his rights are others."""
        ...

    def check_unknown(self, face: Face) -> None:
        """For a path or a verb that is not in the table. Raises: Refused: 401, strangers are not told what there is."""
        ...


# whom the cookie of a page names; None: nobody
Visitor = Callable[[HttpRequest], Principal | None]


class Callers:
    """Names the caller of each request, and the role of a call."""

    def __init__(self, gate: Gate, visitor: Visitor = lambda http: None) -> None:
        self._gate = gate
        self._visitor = visitor
        # users over the Unix socket, and until when their names serve
        self._peers: dict[tuple[int, Role], tuple[Principal, float]] = {}

    async def identify(self, http: HttpRequest, face: Face) -> Principal:
        """The caller; credentials count more than the peer, which may be a proxy.

        Raises: Refused: as of the gate. Unavailable: users cannot be read now.
        """
        peer = peer_over_socket(http)
        # elsewhere a cookie counts for nothing: another site could make a browser send it
        if face is Face.PAGE and "authorization" not in http.headers and (visitor := self._visitor(http)) is not None:
            return visitor
        if peer is None or "authorization" in http.headers:
            return await self._gate.identify(http)
        return await self._of_peer(peer)

    async def _of_peer(self, peer: Peer) -> Principal:
        """Who the kernel says it is; the name of a user is looked up once a while, as that takes a thread."""
        key, now = (peer.uid, peer.role), trio.current_time()
        known = self._peers.get(key)
        if known is None or now >= known[1]:
            if len(self._peers) >= _MOST_PEERS:
                self._peers.clear()
            known = self._peers[key] = await in_thread(_principal, peer), now + _NAME_FRESH_S
        return known[0]

    def role_for(self, call: Call, caller: Principal) -> Role:
        """Raises: Refused: 401, 403."""
        return self._gate.role_for(call, caller)

    async def wait_until_over(self, caller: Principal) -> None:
        """As of the gate."""
        await self._gate.wait_until_over(caller)

    def check_unknown(self, face: Face, http: HttpRequest) -> None:
        """Raises: Refused: 401."""
        if peer_over_socket(http) is None and "authorization" not in http.headers:
            self._gate.check_unknown(face)


def describer(access: Access) -> Describe:
    """What the application is told of each connection over the Unix socket."""

    def describe(sock: socket.socket) -> Mapping[str, object]:
        return {_PEER: with_role(peer_of(sock), access)}

    return describe


def peer_over_socket(http: HttpRequest) -> Peer | None:
    """The process at the other end of the Unix socket; None: the request came over the network."""
    peer = (http.scope.get("state") or {}).get(_PEER)
    return peer if isinstance(peer, Peer) else None


def address_of(http: HttpRequest) -> str:
    """Where a request came from, for logs."""
    if http.client is not None and not http.client.port:
        # as a trusted proxy says
        return http.client.host
    if (peer := peer_over_socket(http)) is not None:
        return f"uid={peer.uid},pid={peer.pid}"
    return "unknown" if http.client is None else f"{http.client.host}:{http.client.port}"


def host_of(http: HttpRequest) -> str:
    """The address of a client without its port: what all its connections share."""
    return address_of(http) if http.client is None else http.client.host


def is_encrypted(http: HttpRequest) -> bool:
    """Whether a browser sees an address with `https`, as far as is known here; a proxy may say so, too."""
    return http.url.scheme == "https" or http.headers.get("x-forwarded-proto", "").lower() == "https"


def _principal(peer: Peer) -> Principal:
    """Raises: Unavailable: users cannot be read now; without a login, the caller's own jobs would not be his."""
    if (found := user_numbered(peer.uid)) is None:
        return Principal(str(peer.uid), Rights(peer.role))
    return Principal(found.pw_name, Rights(peer.role), found.pw_name)

"""Who calls: over the Unix socket the kernel says it, else the request does.

Source: DESIGN section 4, "Who is calling", and section 15.
"""

import pwd
import socket
from collections.abc import Mapping
from typing import Final, Protocol

from starlette.requests import Request as HttpRequest

from common.access import Access, Role
from common.system.inthread import in_thread
from common.webaccess.principal import NOBODY, Principal
from common.webaccess.rights import Rights
from daemons.rapid.calls import Call
from daemons.rapid.refusals import Refused
from protocol.http.connections import Describe
from protocol.peer import Peer, peer_of, with_role

_PEER: Final = "peer"


class Gate(Protocol):
    """Checks the credentials of requests over the network, and the rights of all callers."""

    async def identify(self, http: HttpRequest) -> Principal:
        """The caller of this request; `NOBODY`, or who may do what nobody's rights allow, if it names none.

        Raises: Refused: 401, the credentials are wrong, or are missing and needed.
        """
        ...

    def role_for(self, call: Call, caller: Principal) -> Role:
        """The role with which luxid carries out the call. Raises: Refused: 401 or 403, the caller may not make it."""
        ...


class NoUsers:
    """A gate of a daemon without users: nobody can be known over the network."""

    async def identify(self, http: HttpRequest) -> Principal:
        """Raises: Refused: there are credentials, and nobody whose they could be."""
        if "authorization" in http.headers:
            raise Refused(401, "user or password are wrong")
        return NOBODY

    def role_for(self, call: Call, caller: Principal) -> Role:
        """Raises: Refused."""
        role = caller.rights.role_for(call.rights)
        if role > Role.NONE or not call.rights:
            return role
        needed = " or ".join(f"'{right.value}'" for right in call.rights)
        if caller.is_anonymous:
            raise Refused(401, f"this needs the right {needed}; say who you are, by password or token")
        raise Refused(403, f"'{caller.name}' lacks the right {needed}; an administrator of the cluster gives it")


class Callers:
    """Names the caller of each request, and the role of a call."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def identify(self, http: HttpRequest) -> Principal:
        """Raises: Refused: 401."""
        peer = peer_over_socket(http)
        return await self._gate.identify(http) if peer is None else await in_thread(_principal, peer)

    def role_for(self, call: Call, caller: Principal) -> Role:
        """Raises: Refused: 401, 403."""
        return self._gate.role_for(call, caller)


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
    if (peer := peer_over_socket(http)) is not None:
        return f"uid={peer.uid},pid={peer.pid}"
    return "unknown" if http.client is None else f"{http.client.host}:{http.client.port}"


def _principal(peer: Peer) -> Principal:
    try:
        login = pwd.getpwuid(peer.uid).pw_name
    except KeyError:
        return Principal(str(peer.uid), Rights(peer.role))
    return Principal(login, Rights(peer.role), login)

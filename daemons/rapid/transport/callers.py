"""Where a request comes from: the process at the other end, the address, the site whose page sends it.

Source: DESIGN section 4, "Who is calling", and section 15.
"""

import ipaddress
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import attrs
from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest
from starlette.types import Scope

from common.access import Access
from common.featuresettings import OVER_SOCKET
from protocol.http.connections import Describe
from protocol.peer import Peer, peer_of, with_role

_PEER: Final = "peer"


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


# The client behind a proxy, by the header that the proxy adds. Pure.
#
# Theory. Anybody can send such a header. So it counts only from the addresses that the settings trust, and only the one
# header that they name: a proxy that writes one of the two passes on the other as its client sent it. Each proxy
# appends the address from which a request came to it; read from the end, the first address that is no trusted proxy is
# that of the client, and what stands before it is only what the client says.
#
# Source: RFC 7239.


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_FORWARDED: Final = "forwarded"


@attrs.frozen
class Proxies:
    """Those that are trusted."""

    networks: tuple[_Network, ...] = ()
    # whether whoever may use the Unix socket counts as one
    has_socket: bool = False
    header: str = "x-forwarded-for"

    @classmethod
    def of(cls, trusted: Sequence[str], header: str) -> "Proxies":
        """By the settings, whose values are checked."""
        networks = tuple(ipaddress.ip_network(text, strict=False) for text in trusted if text != OVER_SOCKET)
        return cls(networks, OVER_SOCKET in trusted, header.lower())

    def look_behind(self, scope: Scope) -> None:
        """Put the client's address, with port 0, in the place of a trusted proxy's."""
        if not self.networks and not self.has_socket:
            return
        client = scope.get("client")
        if not (self.has_socket if client is None else self._is_trusted(_read(client[0]))):
            return
        found = None
        for text in self._hops(Headers(scope=scope)):
            found = address = _read(text)
            if not self._is_trusted(address):
                break
        if found is not None:
            scope["client"] = (str(found), 0)

    def _is_trusted(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self.networks)

    def _hops(self, headers: Headers) -> Iterator[str]:
        """What the proxies have added, the last one first."""
        for line in reversed(headers.getlist(self.header)):
            for hop in reversed(line.split(",")):
                yield _for_of(hop) if self.header == _FORWARDED else hop.strip()


def _for_of(element: str) -> str:
    """The client in an element of the header `Forwarded`; empty: it names none."""
    for pair in element.split(";"):
        name, _, value = pair.partition("=")
        if name.strip().lower() == "for":
            return value.strip().strip('"')
    return ""


def _read(text: str) -> _Address | None:
    """An address, with or without its port; None: it is none, such as a proxy's word for a hidden one."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


# For whose page a browser sends a request, by what it says itself. Pure.
#
# Theory. A browser remembers the password of a host, and sends it with whatever another site makes it send there, such
# as a form without fields. It says so: in `Sec-Fetch-Site`, and in the `Origin` of everything but plain reading.
# Programs that are no browsers say neither, and nobody can make them send anything.
#
# The page of this host without encryption is another site where this server is reached with it: whoever is on the way
# can write that page.
#
# Source: Fetch standard, "Origin header"; Fetch Metadata Request Headers.


# what a browser says of a request of the host's own page, and of one that its user makes himself
_OWN: Final = ("same-origin", "none")


def is_of_another_site(headers: Mapping[str, str], *, is_encrypted: bool) -> bool:
    """Whether a browser says that a page of another site sends this."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site not in _OWN
    return origin is not None and not is_of_host(origin, headers.get("host", ""), is_encrypted=is_encrypted)


def is_of_host(origin: str, host: str, *, is_encrypted: bool) -> bool:
    """Whether an origin is that of a host, by the header that names each.

    Args: is_encrypted: whether the host is reached by `https`.
    """
    try:
        parts = urlsplit(origin)
    except ValueError:
        # brackets without an address in them
        return False
    is_ours = parts.scheme == "https" or (parts.scheme == "http" and not is_encrypted)
    return is_ours and bool(parts.netloc) and parts.netloc == host

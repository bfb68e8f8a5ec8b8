"""The client behind a proxy, by the header that the proxy adds. Pure.

Theory. Anybody can send such a header. So it counts only from the addresses that the settings trust, and only the one
header that they name: a proxy that writes one of the two passes on the other as its client sent it. Each proxy appends
the address from which a request came to it; read from the end, the first address that is no trusted proxy is that of
the client, and what stands before it is only what the client says.

Source: RFC 7239.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

import attrs
from starlette.datastructures import Headers
from starlette.types import Scope

from common.webaccess.rapidsettings import OVER_SOCKET

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

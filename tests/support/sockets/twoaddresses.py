"""A resolver of host names for tests."""

import socket
from typing import Any

import trio


class TwoAddresses(trio.abc.HostnameResolver):
    """A name with an address of each kind, as localhost; the one of IPv6 comes first."""

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[Any, ...]]:
        assert port is not None
        rest = (socket.SOCK_STREAM, 6, "")
        return [
            (socket.AF_INET6, *rest, ("::1", int(port), 0, 0)),
            (socket.AF_INET, *rest, ("127.0.0.1", int(port))),
        ]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError

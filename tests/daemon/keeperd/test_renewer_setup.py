"""Where the process that renews the lease is told to find etcd (lease.md 8)."""

import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from common.lease.leasesettings import EtcdSettings
from common.paths import Paths
from common.settings import Settings
from daemons.keeperd.renewer import setup_of

pytestmark = pytest.mark.trio


class _TwoAddresses(trio.abc.HostnameResolver):
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


async def test_a_member_that_listens_at_one_address_of_its_name_is_asked_there(tmp_path: Path) -> None:
    trio.socket.set_custom_hostname_resolver(_TwoAddresses())
    settings = Settings(Paths.under_root(tmp_path), etcd=EtcdSettings(endpoints=("http://member.test:2379",)))

    setup = await setup_of(settings)

    assert [place.address for place in setup.places] == [("::1", 2379, 0, 0), ("127.0.0.1", 2379)]
    assert {place.label for place in setup.places} == {"member.test:2379"}

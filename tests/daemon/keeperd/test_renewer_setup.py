"""Where the process that renews the lease is told to find etcd (lease.md 8)."""

from pathlib import Path

import pytest
import trio

from common.featuresettings import EtcdSettings
from common.paths import Paths
from common.settings import Settings
from daemons.keeperd.renewer import setup_of
from tests.support.sockets.twoaddresses import TwoAddresses

pytestmark = pytest.mark.trio


async def test_a_member_that_listens_at_one_address_of_its_name_is_asked_there(tmp_path: Path) -> None:
    trio.socket.set_custom_hostname_resolver(TwoAddresses())
    settings = Settings(Paths.under_root(tmp_path), etcd=EtcdSettings(endpoints=("http://member.test:2379",)))

    setup = await setup_of(settings)

    assert [place.address for place in setup.places] == [("::1", 2379, 0, 0), ("127.0.0.1", 2379)]
    assert {place.label for place in setup.places} == {"member.test:2379"}

"""User and password of a client of etcd. Source: lease.md 5."""

from pathlib import Path

import attrs
import pytest

from common.errors import InvalidRequest
from common.featuresettings import EtcdSettings
from common.paths import Paths
from common.settings import Settings
from protocol.etcd.address import EtcdAddress
from protocol.etcd.credentials import EtcdCredentials


def test_a_password_that_cannot_be_read_is_told_in_words(tmp_path: Path) -> None:
    etcd = EtcdSettings(endpoints=("http://127.0.0.1:1",))
    address = EtcdAddress.of(Settings(Paths.under_root(tmp_path), etcd=etcd))
    missing = attrs.evolve(address, user="gantry", password_file=str(tmp_path / "password"))

    with pytest.raises(InvalidRequest) as refused:
        EtcdCredentials(missing)

    words = f"cannot be read from '{tmp_path}/password': no such file or directory; write it there"
    assert words in refused.value.message

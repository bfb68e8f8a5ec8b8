"""The address of a node for the others."""

import socket

import attrs
import pytest

from common.nodes import nodeplace
from common.nodes.nodeplace import LOCAL, own_address
from common.settings import Settings
from common.settingsfile import load_settings


@pytest.fixture
def settings() -> Settings:
    found = load_settings(None, {})
    return attrs.evolve(found, cluster=attrs.evolve(found.cluster, replication="nodes", node_name="node1"))


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def find(name: str, *_: object, **__: object) -> list[object]:
        assert name == "node1"
        if not addresses:
            raise socket.gaierror("unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", find)


def test_on_one_machine_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    resolving(monkeypatch, "192.0.2.7")
    alone = attrs.evolve(settings, cluster=attrs.evolve(settings.cluster, replication="none"))

    assert own_address(alone) == LOCAL


def test_the_settings_count_first(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    resolving(monkeypatch, "192.0.2.7")
    told = attrs.evolve(settings, noded=attrs.evolve(settings.noded, address="127.0.0.3"))

    assert own_address(told) == "127.0.0.3"


def test_of_the_addresses_of_the_name_only_those_count_that_others_reach(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    resolving(monkeypatch, "127.0.1.1", "fe80::1%eth0", "192.0.2.7")

    assert own_address(settings) == "192.0.2.7"


@pytest.mark.parametrize(("calling", "address"), [("192.0.2.9", "192.0.2.9"), ("127.0.0.1", LOCAL), (None, LOCAL)])
def test_else_it_is_the_one_that_calls_others(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, calling: str | None, address: str
) -> None:
    resolving(monkeypatch)
    monkeypatch.setattr(nodeplace, "_calling_address", lambda: calling)

    assert own_address(settings) == address

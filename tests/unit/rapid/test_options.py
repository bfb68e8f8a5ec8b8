"""Options of the program count more than the settings; certificates that are not there are told."""

import argparse
from pathlib import Path

import attrs
import pytest

from common.errors import InvalidRequest, NotFound
from common.featuresettings import RapidSettings
from common.paths import Paths
from common.settings import Settings
from daemons.rapid.main import add_options, with_options
from daemons.rapid.transport.certificate import FileIdentity


def rules(*words: str) -> RapidSettings:
    parser = argparse.ArgumentParser()
    add_options(parser)
    settings = Settings(Paths.under_root(Path("/r")), rapid=RapidSettings(port=7, certificate="/s", address="::1"))
    return with_options(settings, vars(parser.parse_args(words))).rapid


def test_options_count_more_than_the_settings() -> None:
    words = ("-b", "10.0.0.1", "-p", "99", "-C", "/c", "-K", "/k", "--no-ssl", "--require-authentication")

    changed = rules(*words, "--max-clients", "5")

    assert changed == RapidSettings(
        address="10.0.0.1",
        port=99,
        certificate="/c",
        key="/k",
        ssl=False,
        require_authentication=True,
        max_clients=5,
    )


def test_without_options_the_settings_count() -> None:
    assert rules() == RapidSettings(port=7, certificate="/s", address="::1")


@pytest.mark.parametrize("words", [("-p", "70000"), ("--max-clients", "0")])
def test_a_value_that_cannot_be_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest, match="an option cannot be used"):
        rules(*words)


def test_the_address_of_the_interface_is_that_of_the_node_or_the_one_it_listens_at() -> None:
    urls = [each.url("web1") for each in (RapidSettings(), rules(), attrs.evolve(rules(), address="", ssl=False))]

    assert urls == ["https://web1:5080", "https://[::1]:7", "http://web1:7"]


def test_a_certificate_that_is_not_there_is_told() -> None:
    with pytest.raises(NotFound, match=r"there is no file '/nonexistent\.pem' of the certificate"):
        FileIdentity(Path("/nonexistent.pem"))

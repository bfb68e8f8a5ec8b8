"""Addresses, credentials and fingerprints."""

from pathlib import Path

import pytest

from common.errors import InvalidRequest
from protocol.rapid.clients.place import Credentials, Place, Trust

_DIGITS = "ab" * 32
_COLONS = ":".join(["AB"] * 32)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("gantry.example.com", "https://gantry.example.com:5080"),
        ("gantry.example.com:6000", "https://gantry.example.com:6000"),
        ("https://gantry.example.com", "https://gantry.example.com"),
        ("https://ada@gantry.example.com:5080/gantry/", "https://gantry.example.com:5080/gantry"),
        ("https://[::1]:5080", "https://[::1]:5080"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_an_address_is_a_url_or_a_host(address: str, url: str) -> None:
    assert Place.at(address).url == url


def test_a_socket_is_an_address() -> None:
    assert Place.at("unix:///run/gantry/rapid.sock").socket == Path("/run/gantry/rapid.sock")
    assert Place.at("unix:/run/gantry/rapid.sock").socket == Path("/run/gantry/rapid.sock")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://ada:secret@host", "password"),
        ("http://host", "https://"),
        ("ftp://host", "is not like"),
        ("https://", "is not like"),
        ("https://host:port", "cannot be read"),
        ("https://host/?a=1", "is not like"),
        ("", "is not like"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_telling_a_secret(address: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Place.at(address)

    assert words in caught.value.message
    assert "secret" not in caught.value.message


def test_secrets_are_not_shown() -> None:
    shown = repr(Place.at("https://ada@host", password="secret")) + repr(Place.at("https://host", token="secret"))

    assert "secret" not in shown


def test_a_user_and_a_token_exclude_each_other() -> None:
    with pytest.raises(InvalidRequest):
        Place.at("https://ada@host", token="t")


@pytest.mark.parametrize(
    "text", [_DIGITS, f"sha256:{_DIGITS.upper()}", _COLONS, f"sha256 Fingerprint={_COLONS}", f"SHA256={_COLONS}\n"]
)
def test_a_fingerprint_is_read_as_tools_print_it(text: str) -> None:
    assert Place.at("host", fingerprint=text).trust == Trust(fingerprint=_DIGITS)


@pytest.mark.parametrize("text", ["ab", f"sha1:{_DIGITS}", f"x{_DIGITS}", f"{_DIGITS}0"])
def test_what_is_no_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Place.at("host", fingerprint=text)


def test_variables_name_a_server() -> None:
    environment = {"GANTRY_REMOTE": "https://host", "GANTRY_TOKEN": "t", "GANTRY_CA": "/etc/ca.pem"}

    assert Place.of_environment(environment) == Place("https://host", Credentials("t"), Trust(Path("/etc/ca.pem")))
    assert Place.of_environment({"GANTRY_TOKEN": "t"}) is None

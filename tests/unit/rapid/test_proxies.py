"""Whose address counts for a request that came through proxies. Source: RFC 7239."""

import pytest

from daemons.rapid.transport.callers import Proxies

TRUSTED = Proxies.of(["10.0.0.0/8", "2001:db8::1"], "X-Forwarded-For")
FORWARDED = Proxies.of(["10.0.0.0/8"], "Forwarded")


def client(proxies: Proxies, peer: str | None, *values: str, header: str = "x-forwarded-for") -> tuple[str, int] | None:
    headers = [(header.encode(), value.encode()) for value in values]
    scope = {"type": "http", "headers": headers, "client": None if peer is None else (peer, 4711)}
    proxies.look_behind(scope)
    found: tuple[str, int] | None = scope["client"]  # type: ignore[assignment]
    return found


@pytest.mark.parametrize(
    ("values", "host"),
    [
        (["192.0.2.7"], "192.0.2.7"),
        (["192.0.2.7:80"], "192.0.2.7"),
        (["[2001:db8:5::7]:80"], "2001:db8:5::7"),
        (["2001:db8:5::7"], "2001:db8:5::7"),
        (["::ffff:192.0.2.7"], "192.0.2.7"),
        # what the client itself says stands before what the proxies have added
        (["203.0.113.1, 192.0.2.7"], "192.0.2.7"),
        (["203.0.113.1", "192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        (["10.9.9.9, 192.0.2.7, 10.0.0.2,10.0.0.3"], "192.0.2.7"),
        # all are proxies: the first of them asks for itself
        (["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
    ],
)
def test_the_last_address_that_is_no_trusted_proxy_is_the_clients(values: list[str], host: str) -> None:
    assert client(TRUSTED, "10.0.0.1", *values) == (host, 0)


@pytest.mark.parametrize("values", [[], [""], ["unknown"], ["203.0.113.1, unknown"], ["1.2.3.4, x"]])
def test_without_an_address_that_the_proxy_knows_its_own_one_counts(values: list[str]) -> None:
    assert client(TRUSTED, "10.0.0.1", *values) == ("10.0.0.1", 4711)


def test_nobody_else_may_name_another_address() -> None:
    assert client(TRUSTED, "192.0.2.1", "203.0.113.1") == ("192.0.2.1", 4711)
    assert client(Proxies(), "10.0.0.1", "203.0.113.1") == ("10.0.0.1", 4711)
    assert client(TRUSTED, None, "203.0.113.1") is None
    assert client(TRUSTED, "2001:db8::1", "203.0.113.1") == ("203.0.113.1", 0)


def test_only_the_header_that_the_settings_name_counts() -> None:
    assert client(TRUSTED, "10.0.0.1", "for=203.0.113.1", header="forwarded") == ("10.0.0.1", 4711)
    assert client(FORWARDED, "10.0.0.1", "203.0.113.1") == ("10.0.0.1", 4711)


@pytest.mark.parametrize(
    ("value", "host"),
    [
        ("for=192.0.2.7", "192.0.2.7"),
        ('proto=https;For="[2001:db8:5::7]:4711";by=10.0.0.1', "2001:db8:5::7"),
        ("for=203.0.113.1, for=192.0.2.7;proto=https, for=10.0.0.2", "192.0.2.7"),
    ],
)
def test_the_header_of_the_standard_is_read(value: str, host: str) -> None:
    assert client(FORWARDED, "10.0.0.1", value, header="forwarded") == (host, 0)


def test_a_proxy_at_the_unix_socket_is_trusted_where_the_settings_say_so() -> None:
    assert client(Proxies.of(["unix"], "X-Forwarded-For"), None, "203.0.113.1") == ("203.0.113.1", 0)

"""The header `Authorization`. Source: rapi.md section 2, "Order of checks"."""

import base64

import pytest

from common.webaccess.tokens import BadToken, ExpiredToken, RevokedToken
from daemons.rapid.access.authenticator import Bearer, NamePassword, bad_token, read_credentials
from daemons.rapid.refusals import RequestRefused
from protocol.rapid.problems import CODES


def basic(text: bytes) -> str:
    return f"Basic {base64.b64encode(text).decode()}"


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC", " Basic "])
def test_the_scheme_is_compared_without_case(scheme: str) -> None:
    header = f"{scheme} {base64.b64encode(b'jack:abc123').decode()}"

    assert read_credentials(header) == NamePassword("jack", "abc123")


def test_a_password_may_have_colons_and_be_empty() -> None:
    assert read_credentials(basic(b"jack:a:b:")) == NamePassword("jack", "a:b:")
    assert read_credentials(basic(b"jack:")) == NamePassword("jack", "")


def test_a_bearer_token_is_taken_as_it_is() -> None:
    assert read_credentials("bearer gnt_1_2") == Bearer("gnt_1_2")


@pytest.mark.parametrize("header", ["Basic", "basic ", "BASIC   "])
def test_basic_without_a_token_is_400(header: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        read_credentials(header)

    assert refused.value.status == 400


@pytest.mark.parametrize(
    "header",
    ["", "Digest username=jack", "Negotiate abc", "Basic !!!", "Basic YWJ", basic(b"jack\xff:x"), basic(b"jack")],
)
def test_what_cannot_be_read_is_401(header: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        read_credentials(header)

    assert refused.value.status == 401


def test_the_challenge_for_a_bad_token_says_what_is_wrong() -> None:
    refused = bad_token(ExpiredToken("the token '0badcafe' has expired"))

    assert (refused.status, refused.code) == (401, "token_expired")
    assert refused.headers["WWW-Authenticate"].startswith('Basic realm="Ganeti Remote API", Bearer ')
    assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]


@pytest.mark.parametrize("code", [BadToken.code, ExpiredToken.code, RevokedToken.code, "unauthenticated"])
def test_the_codes_are_explained(code: str) -> None:
    assert code in CODES


def test_a_password_is_not_shown() -> None:
    assert "abc123" not in repr(read_credentials(basic(b"jack:abc123")))

"""Tokens with which machines join (DESIGN 13, "Joining")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import Denied, InvalidRequest
from common.nodes.joining import JoinToken, JoinTokenText, TokenUse, digest_of_secret

TEXT = JoinTokenText("0123abcd", "ab" * 16, "cd" * 32)
TOKEN = JoinToken("0123abcd", digest_of_secret("ab" * 16), made_at=100.0, expires_at=200.0)
USE = TokenUse("node2", "127.0.0.2", "key", "pem", 150.0)
USED = JoinToken("0123abcd", digest_of_secret("ab" * 16), made_at=100.0, expires_at=200.0, use=USE)


def test_a_token_is_read_as_it_was_written() -> None:
    assert JoinTokenText.parse(str(TEXT)) == TEXT
    assert JoinTokenText.parse(f" {str(TEXT).upper()}\n") == TEXT


@given(st.integers(0, len(str(TEXT)) - 1), st.sampled_from("0123456789abcdef-x"))
def test_a_slip_of_the_pen_is_told_as_such(place: int, letter: str) -> None:
    text = str(TEXT)
    garbled = text[:place] + letter + text[place + 1 :]
    if garbled == text:
        return

    with pytest.raises(InvalidRequest, match="not a whole token"):
        JoinTokenText.parse(garbled)


def test_the_secret_is_in_no_text_for_logs() -> None:
    assert TEXT.secret not in repr(TEXT)


def test_a_free_token_is_taken_until_it_expires() -> None:
    assert TOKEN.admit("key", now=199.0) is None
    with pytest.raises(Denied, match="expired, 0 s ago"):
        TOKEN.admit("key", now=200.0)


def test_a_used_token_is_its_machines_alone_even_when_it_is_over() -> None:
    assert USED.admit("key", now=1000.0) is USE
    with pytest.raises(Denied, match="used already, by the machine 'node2'"):
        USED.admit("other", now=160.0)


def test_a_used_token_can_be_finished_after_it_has_expired() -> None:
    assert TOKEN.is_over_at == 200.0
    assert USED.is_over_at == 150.0 + 3600.0

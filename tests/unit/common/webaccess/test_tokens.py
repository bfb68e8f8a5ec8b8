"""Tokens of programs. Source: issue 12, "bearer tokens"."""

import attrs
import pytest

from common.access import Role
from common.errors import Conflict, NotFound
from common.webaccess.rights import Right, Rights
from common.webaccess.tokens import (
    KEPT_S,
    ExpiredToken,
    RevokedToken,
    Token,
    TokenText,
    digest_of_secret,
    id_in,
    with_new_token,
    with_revoked,
)

SECRET = "5" * 64
TOKEN = Token("0badcafe", "ci", digest_of_secret(SECRET), ("jobs.submit", "jobs.read", "later"), 1000.0, 2000.0, "web")


def test_a_token_is_read_as_it_is_shown() -> None:
    text = TokenText("0badcafe", SECRET)

    assert TokenText.parse(str(text)) == text
    assert SECRET not in repr(text)


@pytest.mark.parametrize("text", ["", "gnt_", f"gnt_0badcafe_{SECRET}5", f"gnt_0badcafe_{SECRET[1:]}", SECRET])
def test_anything_else_is_no_token(text: str) -> None:
    assert TokenText.parse(text) is None


def test_a_token_is_known_by_its_secret_only() -> None:
    assert TOKEN.is_of(SECRET)
    assert not TOKEN.is_of(TOKEN.digest)
    assert TOKEN.digest not in repr(TOKEN)


def test_a_token_is_good_until_it_expires() -> None:
    TOKEN.check(1999.9)
    assert TOKEN.state(1999.9) == "valid"

    assert TOKEN.state(2000.0) == "expired"
    with pytest.raises(ExpiredToken) as refused:
        TOKEN.check(2000.0)
    assert refused.value.code == "token_expired"


def test_a_revoked_token_says_so_also_after_its_end() -> None:
    (revoked,) = with_revoked([TOKEN], TOKEN.id, 1500.0)

    with pytest.raises(RevokedToken) as refused:
        revoked.check(3000.0)
    assert refused.value.code == "token_revoked"
    assert with_revoked([revoked], TOKEN.id, 1600.0) == (revoked,)


def test_a_token_gives_what_its_words_say_and_no_role() -> None:
    assert TOKEN.grants.rights == Rights(Role.NONE, frozenset({Right.JOBS_SUBMIT, Right.JOBS_READ}))
    assert (TOKEN.grants.unix_user, TOKEN.grants.unknown) == ("web", ("later",))


def test_a_good_token_has_its_name_alone() -> None:
    new = attrs.evolve(TOKEN, id="1badcafe", made_at=1500.0)

    with pytest.raises(Conflict, match="'0badcafe' is for 'ci' already"):
        with_new_token([TOKEN], new)
    (revoked,) = with_revoked([TOKEN], TOKEN.id, 1400.0)
    assert with_new_token([revoked], new) == (revoked, new)


def test_tokens_long_over_are_forgotten_when_one_is_made() -> None:
    late = attrs.evolve(TOKEN, id="1badcafe", made_at=2000.0 + KEPT_S + 1)
    eternal = attrs.evolve(TOKEN, id="2badcafe", name="other", expires_at=None)

    assert with_new_token([TOKEN, eternal], late) == (eternal, late)
    assert with_new_token([TOKEN, eternal], attrs.evolve(late, made_at=2001.0)) == (
        TOKEN,
        eternal,
        attrs.evolve(late, made_at=2001.0),
    )


@pytest.mark.parametrize("text", ["0badcafe", "gnt_0badcafe", f"gnt_0badcafe_{SECRET}", " 0badcafe\n"])
def test_a_token_is_named_by_its_id_or_its_whole_text(text: str) -> None:
    assert id_in(text) == "0badcafe"


def test_who_names_no_token_is_told_where_they_are() -> None:
    with pytest.raises(NotFound, match="gantry token list"):
        id_in("ci")
    with pytest.raises(NotFound, match="gantry token list"):
        with_revoked([TOKEN], "1badcafe", 0.0)

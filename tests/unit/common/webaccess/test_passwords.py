"""Passwords of the users file. Source: rapi.md section 2."""

import hashlib

import pytest

from common.webaccess.passwords import (
    ClearText,
    Ha1,
    Scrypt,
    ScryptCost,
    UnknownForm,
    ha1_of,
    hashed,
    is_right,
    matches,
    read_password,
)

# the sheet's test vector
JACK = "54c12257ee9be413f2f3182435514aae"
CHEAP = ScryptCost(4, 8, 1)
SCRYPT = str(Scrypt(CHEAP, bytes(16), CHEAP.key_of("abc123", bytes(16), 32)))


def test_the_vector_of_ha1_is_the_digest_of_name_realm_and_password() -> None:
    assert ha1_of("jack", "abc123") == JACK


@pytest.mark.parametrize(
    "stored",
    [
        *("abc123", "{cleartext}abc123", "{ClearText}abc123"),
        *(f"{{HA1}}{JACK}", f"{{ha1}}{JACK.upper()}"),
        SCRYPT,
    ],
)
def test_a_form_matches_its_password_and_no_other(stored: str) -> None:
    password = read_password(stored)

    assert matches(password, "jack", "abc123")
    assert not matches(password, "jack", "abc12")
    assert not matches(password, "jack", f"{{x}}{stored}")


def test_a_digest_is_of_one_user() -> None:
    assert not matches(read_password(f"{{HA1}}{JACK}"), "jill", "abc123")


@pytest.mark.parametrize(
    ("stored", "scheme"),
    [
        ("{CRYPT}abc123", "CRYPT"),
        ("{}abc123", ""),
        ("{abc123", ""),
        ("{scrypt}abc123", "scrypt"),
        ("{scrypt}ln=30,r=8,p=1$c2FsdHNhbHRzYWx0$a2V5a2V5a2V5a2V5a2V5a2V5", "scrypt"),
        ("{scrypt}ln=14,r=8,p=99$c2FsdHNhbHRzYWx0$a2V5a2V5a2V5a2V5a2V5a2V5", "scrypt"),
        ("{scrypt}ln=14,r=0,p=1$c2FsdHNhbHRzYWx0$a2V5a2V5a2V5a2V5a2V5a2V5", "scrypt"),
    ],
)
def test_an_unknown_form_matches_nothing(stored: str, scheme: str) -> None:
    password = read_password(stored)

    assert password == UnknownForm(scheme)
    assert not matches(password, "jack", "abc123")
    assert not matches(password, "jack", stored)


def test_a_hash_survives_the_file_and_has_a_salt_of_its_own() -> None:
    one, two = hashed("zwei Wörter"), hashed("zwei Wörter")

    assert read_password(str(one)) == one
    assert (one.salt, one.key) != (two.salt, two.key)
    # it is one word of a line
    assert len(str(one).split()) == 1


def test_a_password_is_never_shown() -> None:
    for password in (ClearText("secret"), Ha1("secret"), Scrypt(CHEAP, b"secret", b"secret")):
        assert "secret" not in repr(password)


@pytest.mark.parametrize("stored", [None, "abc123", f"{{HA1}}{JACK}", "{other}x", SCRYPT])
def test_every_check_costs_one_hash(stored: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes: list[str] = []

    def count(*_: object, dklen: int, **__: object) -> bytes:
        hashes.append("scrypt")
        return bytes(dklen)

    monkeypatch.setattr(hashlib, "scrypt", count)

    assert not is_right(None if stored is None else read_password(stored), "jack", "wrong")

    assert hashes == ["scrypt"]

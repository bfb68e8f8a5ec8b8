"""Passwords as the users file has them, and their check.

Theory. Ganeti's forms are clear text, and the digest that HTTP's digest authentication once used; both are read, and
neither is written by us. Ours is a salted scrypt hash, with its parameters beside it, so that they can be raised
later. A check of a wrong password must not tell whether the user exists or how the password is stored: so each check
costs one scrypt hash. Whoever checks often remembers what was right.

Source: rapi.md section 2; RFC 7914.
"""

import hashlib
import hmac
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, assert_never

import attrs

REALM: Final = "Ganeti Remote API"
_SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
# bounds for what the file may ask of this machine
_MOST_MEMORY: Final = 256 * 2**20
_MOST_PARALLEL: Final = 16
_SCRYPT: Final = re.compile(r"ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([\w-]{11,86})\$([\w-]{22,86})", re.ASCII)


@attrs.frozen
class ClearText:
    text: str = attrs.field(repr=False)


@attrs.frozen
class Ha1:
    """MD5 of `user:realm:password`."""

    digest: str = attrs.field(repr=False)


@attrs.frozen
class ScryptCost:
    # logarithm of n to the base 2
    log_n: int = 14
    r: int = 8
    p: int = 5

    @property
    def is_bearable(self) -> bool:
        return self.log_n > 0 and self.r > 0 and 0 < self.p <= _MOST_PARALLEL and self._memory <= _MOST_MEMORY

    @property
    def _memory(self) -> int:
        return 128 * self.r * ((1 << self.log_n) + self.p + 2)

    def key_of(self, given: str, salt: bytes, size: int) -> bytes:
        """The hash of a password: a tenth of a second of one core."""
        return hashlib.scrypt(
            given.encode(errors="surrogatepass"),
            salt=salt,
            n=(1 << self.log_n),
            r=self.r,
            p=self.p,
            maxmem=self._memory + 2**20,
            dklen=size,
        )


@attrs.frozen
class Scrypt:
    cost: ScryptCost
    salt: bytes = attrs.field(repr=False)
    key: bytes = attrs.field(repr=False)

    def __str__(self) -> str:
        """The password as the file has it."""
        cost = self.cost
        return f"{{scrypt}}ln={cost.log_n},r={cost.r},p={cost.p}${_to_text(self.salt)}${_to_text(self.key)}"


@attrs.frozen
class UnknownForm:
    """A password that never matches."""

    # "": the braces are not closed
    scheme: str


Password = ClearText | Ha1 | Scrypt | UnknownForm
# the work of a check where nothing is stored to check against
_NOTHING: Final = Scrypt(ScryptCost(), bytes(_SALT_BYTES), bytes(_KEY_BYTES))


def read_password(text: str) -> Password:
    """The password behind the second word of a line."""
    if not text.startswith("{"):
        return ClearText(text)
    scheme, closing, rest = text[1:].partition("}")
    if not scheme or not closing:
        return UnknownForm("")
    match scheme.lower():
        case "cleartext":
            return ClearText(rest)
        case "ha1":
            return Ha1(rest)
        case "scrypt":
            return _read_scrypt(rest) or UnknownForm(scheme)
        case _:
            return UnknownForm(scheme)


def _read_scrypt(text: str) -> Scrypt | None:
    match = _SCRYPT.fullmatch(text)
    if match is None:
        return None
    cost = ScryptCost(*map(int, match.group(1, 2, 3)))
    try:
        salt, key = map(_from_text, match.group(4, 5))
    except ValueError:
        return None
    return Scrypt(cost, salt, key) if cost.is_bearable else None


def hashed(given: str) -> Scrypt:
    """A password to be stored; costs one scrypt hash."""
    cost, salt = ScryptCost(), os.urandom(_SALT_BYTES)
    return Scrypt(cost, salt, cost.key_of(given, salt, _KEY_BYTES))


def is_right(stored: Password | None, name: str, given: str) -> bool:
    """Check a password, at the cost of one scrypt hash. Args: stored: None: there is no such user."""
    if not isinstance(stored, Scrypt):
        matches(_NOTHING, name, given)
    return stored is not None and matches(stored, name, given)


def matches(stored: Password, name: str, given: str) -> bool:
    """Whether this is the password; the time tells the form, so callers who let others wait use `is_right`."""
    match stored:
        case ClearText(text):
            return _is_same(text, given)
        case Ha1(digest):
            return _is_same(digest.lower(), ha1_of(name, given))
        case Scrypt(cost, salt, key):
            return hmac.compare_digest(cost.key_of(given, salt, len(key)), key)
        case UnknownForm():
            return False
        case _:
            assert_never(stored)


def ha1_of(name: str, password: str) -> str:
    whole = f"{name}:{REALM}:{password}".encode(errors="surrogatepass")
    return hashlib.md5(whole, usedforsecurity=False).hexdigest()


def _is_same(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(errors="surrogatepass"), given.encode(errors="surrogatepass"))


def _to_text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _from_text(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))

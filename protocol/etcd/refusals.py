"""What a reply means that is not the one asked for.

Theory. Releases 3.4 to 3.7 report errors in four shapes, and their codes are not to be trusted: the same fault has come
with several. So a refusal is known by its text first and by its code only where that decides nothing. What is not
in the tables is unknown: the request may have been carried out, and is sent again.

Source: lease.md 1, 4 and 5.
"""

import enum
from collections.abc import Mapping
from typing import Final

import attrs
import orjson

from protocol.etcd.errors import Compacted, EtcdCorrupt, EtcdDenied, EtcdError, EtcdFull, LeaseGone, TooLarge

# characters of a text that is not etcd's
_LONGEST: Final = 200


class Meaning(enum.Enum):
    # nobody knows what became of the request; ask again, or another member
    UNKNOWN = "unknown"
    FULL = "full"
    CORRUPT = "corrupt"
    LEASE_GONE = "lease gone"
    TOO_LARGE = "too large"
    COMPACTED = "compacted"
    DENIED = "denied"
    # the token is missing, or does not count any more: log in again
    NO_TOKEN = "no token"
    # etcd asks nobody who he is
    NO_USERS = "no users"
    # any other certain refusal
    REFUSED = "refused"


@attrs.frozen
class Refusal:
    meaning: Meaning
    # in etcd's words
    text: str

    @property
    def error(self) -> EtcdError:
        """The error for callers. The meaning is not unknown."""
        kind = _ERRORS.get(self.meaning, EtcdError)
        return kind(f"{_BEGINNINGS.get(self.meaning, 'etcd refuses the request')}: {self.text}")


_ERRORS: Final[Mapping[Meaning, type[EtcdError]]] = {
    Meaning.FULL: EtcdFull,
    Meaning.CORRUPT: EtcdCorrupt,
    Meaning.LEASE_GONE: LeaseGone,
    Meaning.TOO_LARGE: TooLarge,
    Meaning.COMPACTED: Compacted,
    Meaning.DENIED: EtcdDenied,
    Meaning.NO_TOKEN: EtcdDenied,
}
_BEGINNINGS: Final[Mapping[Meaning, str]] = {
    Meaning.FULL: "etcd is full and takes no changes; 'gantry cluster' tells what to do",
    Meaning.CORRUPT: "etcd has found corrupt data and serves nothing",
    Meaning.DENIED: "etcd does not let this user do this (setting 'user' of '[etcd]')",
    Meaning.NO_TOKEN: "etcd asks for a user and a password (settings 'user' and 'password_file' of '[etcd]')",
}
# part of a text -> what it means; the first that fits counts
_TEXTS: Final = (
    ("database space exceeded", Meaning.FULL),
    ("corrupt cluster", Meaning.CORRUPT),
    ("requested lease not found", Meaning.LEASE_GONE),
    ("request is too large", Meaning.TOO_LARGE),
    ("message larger than max", Meaning.TOO_LARGE),
    ("too many operations", Meaning.TOO_LARGE),
    ("has been compacted", Meaning.COMPACTED),
    ("invalid auth token", Meaning.NO_TOKEN),
    ("user name is empty", Meaning.NO_TOKEN),
    ("revision of auth store is old", Meaning.NO_TOKEN),
    ("authentication is not enabled", Meaning.NO_USERS),
    ("authentication failed", Meaning.DENIED),
    ("permission denied", Meaning.DENIED),
    ("CommonName of client", Meaning.DENIED),
)
# gRPC's codes that are certain refusals, whatever the text: invalid, not found, exists, denied, precondition, range,
# unimplemented
_CERTAIN: Final = frozenset({3, 5, 6, 7, 9, 11, 12})
_UNAUTHENTICATED: Final = 16


def judge(status: int, body: bytes) -> Refusal:
    """Tell what a reply means whose status is not 200, or that is an error of a stream."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        text = body[:_LONGEST].decode(errors="replace").strip()
        return Refusal(_by_text(text) or Meaning.UNKNOWN, f"HTTP {status}: {text}" if text else f"HTTP {status}")
    text, code = _text_and_code(found)
    return Refusal(_by_text(text) or _by_code(code), text or f"HTTP {status}, code {code}")


def judge_text(text: str) -> Refusal:
    """Tell what the reason of a watch that was canceled means."""
    return Refusal(_by_text(text) or Meaning.UNKNOWN, text)


def _text_and_code(found: Mapping[str, object]) -> tuple[str, object]:
    inner = found.get("error")
    if isinstance(inner, dict):
        # of a stream: 3.4 and 3.5 say grpc_code, 3.6 says code
        return str(inner.get("message", "")), inner.get("grpc_code", inner.get("code"))
    return str(found.get("message") or inner or ""), found.get("code")


def _by_text(text: str) -> Meaning | None:
    return next((meaning for part, meaning in _TEXTS if part in text), None)


def _by_code(code: object) -> Meaning:
    # anything else than a whole number says nothing
    if isinstance(code, bool) or not isinstance(code, int):
        return Meaning.UNKNOWN
    if code == _UNAUTHENTICATED:
        return Meaning.NO_TOKEN
    return Meaning.REFUSED if code in _CERTAIN else Meaning.UNKNOWN

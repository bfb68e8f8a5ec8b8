"""The fields of a reply of etcd, each read as the type that it must have; no I/O.

Theory. The gateway leaves out what is zero, false or empty, and writes numbers of 64 bits as strings. Anything else
(null, another type, a negative number) is damage, and then nothing of the reply counts: a guess could take a lease for
gone, or a transaction for carried out.

All functions raise ValueError if the reply, or the field, is something else.

Source: lease.md 4.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final

Json = Mapping[str, Any]
_LARGEST: Final = 2**64 - 1
_DIGITS: Final = len(str(_LARGEST))


def number(of: Json, name: str) -> int:
    """A number that cannot be negative; 0 if it is left out."""
    found = _field(of, name, "0")
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) <= _DIGITS:
        found = int(found)
    # a bool is an int in Python
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _LARGEST:
        raise _damaged(name, "a number", found)
    return found


def text(of: Json, name: str) -> str:
    """Empty if it is left out."""
    found = _field(of, name, "")
    if not isinstance(found, str):
        raise _damaged(name, "a text", found)
    return found


def needed_text(of: Json, name: str) -> str:
    """A text that is never empty."""
    found = text(of, name)
    if not found:
        raise _damaged(name, "a text", found)
    return found


def flag(of: Json, name: str) -> bool:
    """False if it is left out."""
    found = _field(of, name, False)
    if not isinstance(found, bool):
        raise _damaged(name, "true or false", found)
    return found


def content(of: Json, name: str) -> bytes:
    """Bytes, which come as base64; empty if they are left out."""
    return b64decode(text(of, name), validate=True)


def rows(of: Json, name: str) -> Sequence[Json]:
    """Objects in a list; none if it is left out."""
    found = _field(of, name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise _damaged(name, "a list of objects", found)
    return found


def texts(of: Json, name: str) -> Sequence[str]:
    """Texts in a list; none if it is left out."""
    found = _field(of, name, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _damaged(name, "a list of texts", found)
    return found


def inner(of: Json, name: str) -> Json:
    """An object that is never left out."""
    found = _field(of, name, None)
    if not isinstance(found, dict):
        raise _damaged(name, "an object", found)
    return found


def token(of: Json) -> str:
    """A token for the header `Authorization`, where a line's end or a foreign letter cannot stand."""
    found = _field(of, "token", "")
    if not isinstance(found, str) or not found or not all("!" <= letter <= "~" for letter in found):
        # a secret, perhaps
        raise ValueError("'token' must be a text of visible ASCII letters")
    return found


def lease_seconds(renewal: Json, lease: int) -> int:
    """The seconds that the lease lives, by the reply to its renewal; 0: it is gone."""
    result = inner(renewal, "result")
    # a verdict about a lease counts only if the reply names it
    if number(result, "ID") != lease:
        raise ValueError(f"the reply is not about the lease {lease:x}")
    return number(result, "TTL")


def _field(of: object, name: str, if_left_out: object) -> object:
    if not isinstance(of, dict):
        raise ValueError(f"an object must be there, not {of!r:.40}")
    return of.get(name, if_left_out)


def _damaged(name: str, what: str, found: object) -> ValueError:
    return ValueError(f"'{name}' must be {what}, not {found!r:.40}")

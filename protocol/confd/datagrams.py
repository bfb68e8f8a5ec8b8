"""Signed datagrams: four bytes, then JSON with a text, a salt, and the signature of both.

Theory. The text is a JSON document as a string: exactly this string is signed, so it is never encoded anew. The salt of
a request is the time, that of a reply is what the client has chosen. What is not genuine is told by None, whatever is
wrong with it: nobody gets a reply, and a flood of it costs no more than the signature.

Source: confd.md 2.
"""

import hmac
from typing import Final

import attrs
import orjson

from common.asciijson import ascii_json

MAGIC: Final = b"plj0"
# bytes of the longest request that a server takes
MAX_REQUEST_BYTES: Final = 4096
# bytes of the longest reply that clients take
MAX_REPLY_BYTES: Final = 61440
# difference between the clocks of both ends
MAX_SKEW_S: Final = 300
# characters of the longest time that is read
_TIME_CHARACTERS: Final = 20


@attrs.frozen
class Signed:
    """A text of somebody who has the key."""

    text: str
    salt: str

    def is_recent(self, now: float) -> bool:
        """Whether the salt is a time close enough to `now`, in seconds since the epoch."""
        digits = self.salt.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _TIME_CHARACTERS):
            return False
        return abs(int(self.salt) - now) <= MAX_SKEW_S


def seal(key: bytes, text: str, salt: str) -> bytes:
    """The datagram with a text. Args: key: all bytes of its file, also the last newline."""
    signed = {"hmac": _signature(key, text, salt), "msg": text, "salt": salt}
    return MAGIC + ascii_json(signed)


def unseal(key: bytes, datagram: bytes) -> Signed | None:
    """Read a datagram; None: it is not genuine."""
    if not datagram.startswith(MAGIC):
        return None
    try:
        outer = orjson.loads(memoryview(datagram)[len(MAGIC) :])
    except orjson.JSONDecodeError:
        return None
    if not isinstance(outer, dict):
        return None
    text, salt, given = outer.get("msg"), outer.get("salt"), outer.get("hmac")
    if not (isinstance(text, str) and isinstance(salt, str) and isinstance(given, str)):
        return None
    # bytes, as texts that are not ASCII cannot be compared
    if not hmac.compare_digest(_signature(key, text, salt).encode(), given.lower().encode()):
        return None
    return Signed(text, salt)


def _signature(key: bytes, text: str, salt: str) -> str:
    return hmac.digest(key, (salt + text).encode(), "sha1").hex()

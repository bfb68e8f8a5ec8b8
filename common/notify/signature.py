"""The headers of a delivery, as Standard Webhooks has them.

The signature is over id, instant and body, so a receiver can tell a forged delivery, a changed one and one that was
recorded and sent again.

Source: everyday.md section h; standardwebhooks.com.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from common.errors import InvalidRequest

_PREFIX: Final = "whsec_"
LEAST_BYTES: Final = 16


def read_secret(text: str) -> tuple[bytes, ...]:
    """The keys of a file, one a line: text, or `whsec_` and base64. Several while a key is changed for another.

    Raises: InvalidRequest: there is none, one is shorter than 16 bytes, or its base64 is malformed.
    """
    keys = tuple(_read_key(line.strip()) for line in text.splitlines() if line.strip())
    if not keys:
        raise InvalidRequest("the file of the secret is empty")
    return keys


def headers(message_id: str, at_s: int, body: bytes, keys: tuple[bytes, ...]) -> Mapping[str, str]:
    """The headers of a delivery. Args: at_s: seconds since the epoch, now. keys: empty: it is not signed."""
    told = {"webhook-id": message_id, "webhook-timestamp": str(at_s)}
    signed = f"{message_id}.{at_s}.".encode() + body
    signatures = [f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}" for key in keys]
    return {**told, "webhook-signature": " ".join(signatures)} if keys else told


def _read_key(line: str) -> bytes:
    if not line.startswith(_PREFIX):
        key = line.encode()
    else:
        try:
            key = base64.b64decode(line.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise InvalidRequest(f"the secret after '{_PREFIX}' is not base64") from None
    if len(key) < LEAST_BYTES:
        raise InvalidRequest(f"the secret has {len(key)} bytes, and needs at least {LEAST_BYTES}")
    return key

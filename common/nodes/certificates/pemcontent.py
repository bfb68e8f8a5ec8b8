"""The content of files with certificates and private keys (PEM): its parts, and the digests of certificates.

Nothing here needs `cryptography`.

Source: noded.md 3.
"""

import base64
import binascii
import hashlib
import re
from typing import Final

from common.errors import DamagedFile

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----\n?", re.DOTALL)
_KEY: Final = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.+?-----END \1-----\n?", re.DOTALL)


def certificates_in(pem: bytes) -> list[bytes]:
    """The PEM of each certificate in this content, without keys."""
    return [match[0] for match in _CERTIFICATE.finditer(pem)]


def has_key(pem: bytes) -> bool:
    """Whether this content has a private key."""
    return _KEY.search(pem) is not None


def key_in(pem: bytes) -> bytes:
    """The PEM of the private key in this content. Raises: DamagedFile: there is none."""
    match = _KEY.search(pem)
    if match is None:
        raise DamagedFile("there is no private key where one was expected")
    return match[0]


def digest_of(pem: bytes) -> str:
    """The digest of the first certificate in this content, as ssconf has it: `3F:0A:...`.

    Raises: DamagedFile: there is none.
    """
    return hashlib.sha1(_der_of(pem), usedforsecurity=False).digest().hex(":").upper()


def fingerprint_of(pem: bytes) -> str:
    """SHA-256 of the first certificate in this content, in hexadecimal digits. Raises: DamagedFile: there is none."""
    return hashlib.sha256(_der_of(pem)).hexdigest()


def _der_of(pem: bytes) -> bytes:
    match = _CERTIFICATE.search(pem)
    try:
        der = base64.b64decode(b"".join(match[1].split()), validate=True) if match else b""
    except binascii.Error:
        der = b""
    if not der:
        raise DamagedFile("there is no certificate where one was expected")
    return der

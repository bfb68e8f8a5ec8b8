"""TLS towards a server: the certificates that are trusted, or the one that was pinned.

Source: DESIGN section 15.
"""

import hashlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from common.errors import InvalidRequest
from protocol.rapid.clients.place import Trust


class WrongFingerprint(ssl.SSLError):
    """The server's certificate is not the one that was pinned."""

    def __init__(self, seen: str) -> None:
        super().__init__(1, f"certificate sha256:{seen} is not the pinned one")
        self.seen = seen


def make_context(trust: Trust) -> ssl.SSLContext:
    """Raises: InvalidRequest: the file of certificates cannot be read."""
    if trust.fingerprint is not None:
        return _pinned(trust.fingerprint)
    context = _system() if trust.ca is None else _of_file(trust.ca)
    # of Python 3.13's default; a certificate of version 1 has no extensions
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # the file may have the server's own certificate, whoever signed it
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def fingerprint_of(der: bytes) -> str:
    """The SHA256 of a certificate."""
    return hashlib.sha256(der).hexdigest()


def errors_behind(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, the nearest first."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _system() -> ssl.SSLContext:
    return ssl.create_default_context()


def _of_file(path: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise InvalidRequest(f"'{path}' has no certificate in PEM form") from None
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise InvalidRequest(f"'{path}', the file of trusted certificates, cannot be read: {reason}") from None


class _PinnedSocket(ssl.SSLSocket):
    """Checks the certificate after the handshake, before anything is sent."""

    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        _check(self.context, self.getpeercert(binary_form=True))


class _PinnedObject(ssl.SSLObject):
    """As `_PinnedSocket`, for programs with an event loop."""

    def do_handshake(self) -> None:
        super().do_handshake()
        _check(self.context, self.getpeercert(binary_form=True))


class _PinnedContext(ssl.SSLContext):
    """A context for one certificate, whatever it says."""

    fingerprint: str
    sslsocket_class = _PinnedSocket
    sslobject_class = _PinnedObject


def _pinned(fingerprint: str) -> ssl.SSLContext:
    context = _PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # not unchecked: by its fingerprint
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.fingerprint = fingerprint
    return context


def _check(context: ssl.SSLContext, der: bytes | None) -> None:
    """Raises: WrongFingerprint."""
    seen = fingerprint_of(der or b"")
    if seen != cast(_PinnedContext, context).fingerprint:
        raise WrongFingerprint(seen)

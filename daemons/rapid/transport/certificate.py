"""The certificate that rapid shows: read again when its file has changed.

Source: rapi.md 1.
"""

import os
import ssl
from pathlib import Path
from typing import Final

from common.errors import InvalidRequest, NotFound, explain_os_error
from common.system.log import get_log
from common.system.stamps import Stamp, stamp_of

_log: Final = get_log(__name__)


class FileIdentity:
    """The TLS context of the server.

    Args: key: file of the private key; None: it is in that of the certificate.
    Raises: NotFound: there is no such file. InvalidRequest: it is no certificate with a key. OSError.
    """

    def __init__(self, certificate: Path, key: Path | None = None) -> None:
        self._certificate = certificate
        self._key = key
        # why a new one is not used, as it was logged
        self._told = ""
        try:
            # stamps of the last attempt; empty: it is to be repeated
            self._stamps = self._look()
            self._context = _load(certificate, key)
        except FileNotFoundError as error:
            raise NotFound(f"there is no file '{error.filename or certificate}' of the certificate") from None
        except ssl.SSLError as error:
            raise InvalidRequest(f"the certificate '{certificate}' cannot be used: {_reason(error)}") from None

    def context(self) -> ssl.SSLContext:
        """The context for a new connection; while a changed file cannot be used, the one before."""
        try:
            stamps = self._look()
            if stamps != self._stamps:
                self._stamps = stamps
                self._context = _load(self._certificate, self._key)
                _log.info("certificate.changed", path=self._certificate)
        except OSError as error:
            # an SSLError is an OSError, and says that the content is wrong; any other one says nothing about it
            if not isinstance(error, ssl.SSLError):
                self._stamps = ()
            self._tell(_reason(error))
        else:
            self._told = ""
        return self._context

    def _tell(self, reason: str) -> None:
        if reason != self._told:
            self._told = reason
            _log.error("certificate.unusable", path=self._certificate, reason=reason, effect="the old one stays")

    def _look(self) -> tuple[Stamp, ...]:
        return tuple(stamp_of(os.stat(path)) for path in (self._certificate, self._key) if path is not None)


def _load(certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    if key is None:
        # key and certificate of one file, even if another one takes its place now
        with certificate.open("rb") as file:
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    else:
        context.load_cert_chain(certificate, key)
    return context


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return explain_os_error(error)

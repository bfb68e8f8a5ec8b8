"""The certificate that noded shows, and against which it checks its callers: both are `server.pem`.

The context for connections is made again when the file has changed, so the cluster's certificate can be replaced
without a restart. Certificates of Ganeti have version 1 and no extensions; therefore the strict checks of X.509 are
off, and names are not checked.

Source: noded.md 3; CHOICES 3.
"""

import os
import re
import ssl
from pathlib import Path
from typing import Final

from common.errors import NotFound, explain_os_error
from common.system.log import get_log
from daemons.noded.files.stamps import Stamp, stamp_of

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)
_log: Final = get_log(__name__)


class TlsIdentity:
    """The TLS context of the server.

    Args: server_pem: the file with the cluster's key and certificate.
    Raises: NotFound: there is none. OSError, ssl.SSLError: it cannot be used.
    """

    def __init__(self, server_pem: Path) -> None:
        self._path = server_pem
        try:
            self._stamp, self._context = _load(server_pem)
        except FileNotFoundError:
            raise NotFound(
                f"there is no certificate of the cluster, '{server_pem}'; it is made with the cluster, "
                "or comes when this node joins one"
            ) from None

    def context(self) -> ssl.SSLContext:
        """The context for a new connection; while a changed file cannot be used, the one before."""
        try:
            if stamp_of(os.stat(self._path)) != self._stamp:
                self._stamp, self._context = _load(self._path)
                _log.info("certificate.changed", path=self._path)
        except OSError as error:
            # an SSLError is an OSError
            reason = explain_os_error(error)
            _log.error("certificate.unusable", path=self._path, reason=reason, effect="the old one stays")
        return self._context


def _load(path: Path) -> tuple[Stamp, ssl.SSLContext]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        stamp = stamp_of(os.fstat(fd))
        text = os.pread(fd, stamp[3], 0).decode("ascii", "replace")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.set_alpn_protocols(["http/1.1"])
        # key and certificate of one file, even if another one takes its place now
        context.load_cert_chain(f"/proc/self/fd/{fd}")
        context.load_verify_locations(cadata="".join(_CERTIFICATE.findall(text)))
        return stamp, context
    finally:
        os.close(fd)

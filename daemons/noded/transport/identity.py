"""The certificate that noded shows, and the one against which it checks its callers.

Theory. `server.pem` is the certificate of the cluster. Where its key is beside it, as on master candidates and on all
nodes of a Ganeti, noded shows it; a plain node has no such key, and noded shows the node's own certificate, which the
cluster has signed. Callers accept both, because they check the chain up to the cluster's certificate. While that is
being renewed, the file holds the other certificate of the two as well, and callers with either are accepted.

The context for connections is made again when a file has changed, so certificates can be replaced without a restart.
Certificates of Ganeti have version 1 and no extensions; therefore the strict checks of X.509 are off, and names are
not checked.

Source: noded.md 3; DESIGN section 13.
"""

import os
import ssl
from typing import Final

from common.errors import NotFound, explain_os_error
from common.nodes.certificates.pemcontent import certificates_in, has_key
from common.paths import Paths
from common.system.log import get_log
from daemons.noded.files.stamps import Stamp, stamp_at, stamp_of

_log: Final = get_log(__name__)


class TlsIdentity:
    """The TLS context of a server.

    Args: needs_caller: whether callers without a certificate are refused in the handshake.
    Raises: NotFound: there is no certificate. OSError, ssl.SSLError: it cannot be used.
    """

    def __init__(self, paths: Paths, *, needs_caller: bool = True) -> None:
        self._server, self._client = paths.server_pem, paths.client_pem
        self._needs_caller = needs_caller
        try:
            self._stamps, self._context = self._load()
        except FileNotFoundError as error:
            raise NotFound(
                f"there is no certificate of the cluster, '{error.filename}'; it is made with the cluster, "
                "or comes when this node joins one"
            ) from None

    def context(self) -> ssl.SSLContext:
        """The context for a new connection; while a changed file cannot be used, the one before."""
        try:
            if (stamp_of(os.stat(self._server)), stamp_at(self._client)) != self._stamps:
                self._stamps, self._context = self._load()
                _log.info("certificate.changed", path=self._server)
        except OSError as error:
            # an SSLError is an OSError
            reason = explain_os_error(error)
            _log.error("certificate.unusable", path=self._server, reason=reason, effect="the old one stays")
        return self._context

    def _load(self) -> tuple[tuple[Stamp, Stamp], ssl.SSLContext]:
        server_fd = os.open(self._server, os.O_RDONLY | os.O_CLOEXEC)
        try:
            stamps = stamp_of(os.fstat(server_fd)), stamp_at(self._client)
            content = os.pread(server_fd, stamps[0][3], 0)
            context = _context(content, needs_caller=self._needs_caller)
            if has_key(content):
                # key and certificate of one file, even if another one takes its place now
                context.load_cert_chain(f"/proc/self/fd/{server_fd}")
            else:
                context.load_cert_chain(self._client)
            return stamps, context
        finally:
            os.close(server_fd)


def _context(server_pem: bytes, *, needs_caller: bool) -> ssl.SSLContext:
    trusted = b"".join(certificates_in(server_pem)).decode("ascii", "replace")
    if not trusted:
        raise ssl.SSLError("there is no certificate in it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.verify_mode = ssl.CERT_REQUIRED if needs_caller else ssl.CERT_OPTIONAL
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(cadata=trusted)
    return context

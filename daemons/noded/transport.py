"""HTTPS with mutual TLS: connections, certificates, bodies, pages."""

import os
import ssl
from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from typing import Final

import attrs

from common.errors import DamagedFile, NotFound, explain_os_error
from common.nodes.certificates import certificates_in, digest_of, has_key
from common.paths import Paths
from common.system.log import get_log
from common.system.stamps import Stamp, stamp_at, stamp_of
from protocol.http.connection import Scope
from protocol.noded.call import EPOCH_HEADER

# The certificate that noded shows, and the one against which it checks its callers.
#
# Theory. `server.pem` is the certificate of the cluster. Where its key is beside it, as on master candidates and on all
# nodes of a Ganeti, noded shows it; a plain node has no such key, and noded shows the node's own certificate, which the
# cluster has signed. Callers accept both, because they check the chain up to the cluster's certificate. While that is
# being renewed, the file holds the other certificate of the two as well, and callers with either are accepted.
#
# The context for connections is made again when a file has changed, so certificates can be replaced without a restart.
# Certificates of Ganeti have version 1 and no extensions; therefore the strict checks of X.509 are off, and names are
# not checked.
#
# Source: noded.md 3; DESIGN section 13.


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


# Replies: JSON for every procedure that was carried out, pages of HTML for the rest.
#
# Source: noded.md 2 and 4.


# statuses after which the connection may still have parts of the request
_CLOSING: Final = (408, 413)


@attrs.frozen
class NodedReply:
    """A reply over HTTP."""

    status: int
    content_type: str
    body: bytes
    # highest epoch that this node has seen; None: the page is not one of a procedure
    epoch: int | None = None

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        found = [(b"content-type", self.content_type.encode()), (b"content-length", b"%d" % len(self.body))]
        if self.epoch is not None:
            found.append((EPOCH_HEADER.lower().encode(), b"%d" % self.epoch))
        return [*found, (b"connection", b"close")] if self.status in _CLOSING else found


def result_page(body: bytes, epoch: int) -> NodedReply:
    """The result of a procedure, also of one that failed. Args: epoch: the highest that this node has seen."""
    return NodedReply(200, "application/json", body, epoch)


def error_page(status: int, text: str) -> NodedReply:
    """A page for a request that is no call."""
    title = f"{status} {HTTPStatus(status).phrase}"
    body = (
        f"<html>\n<head>\n<title>{title}</title>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f"<p>{escape(text)}</p>\n</body>\n</html>\n"
    )
    return NodedReply(status, "text/html", body.encode())


# Who calls.


_NO_CALLER: Final = ""


def caller_of(scope: Scope) -> str:
    """The digest of the caller's certificate; that of nobody if there is none."""
    chain = scope["extensions"].get("tls", {}).get("client_cert_chain") or ("",)
    try:
        return digest_of(str(chain[0]).encode())
    except DamagedFile:
        return _NO_CALLER


def peer_of(scope: Scope) -> str:
    """Address and port of the caller."""
    client = scope.get("client") or ("unknown", 0)
    return f"{client[0]}:{client[1]}"

"""HTTPS with mutual TLS: connections, certificates, bodies, pages."""

import os
import ssl
from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from typing import Final, Protocol

import attrs

from common.errors import DamagedFile, GantryError, NotFound, explain_os_error, reason_of
from common.nodes.certificates import certificates_in, digest_of, has_key
from common.paths import Paths
from common.system.log import get_log
from daemons.noded.files.places import Stamp, stamp_at, stamp_of
from protocol.http.body import Bodies, BodyRefused, HungUp
from protocol.http.connection import Receive, Scope, Send
from protocol.noded.call import EPOCH_HEADER, failure_body

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


# The ASGI application: `POST /<procedure>`, its caller checked, its body read, its result as JSON.
#
# Source: noded.md 2 to 4.


_EPOCH_NAME: Final = EPOCH_HEADER.lower().encode()
_NO_CALLER: Final = ""


class Answering(Protocol):
    """The procedures behind the application."""

    def may_call(self, digest: str) -> bool:
        """Whether the holder of this certificate is obeyed. Raises: GantryError: that cannot be told now."""
        ...

    def has(self, procedure: str) -> bool: ...

    @property
    def epoch(self) -> int:
        """The highest epoch of a master that this node has seen."""
        ...

    async def answer(self, procedure: str, body: bytes, epoch: str | None) -> bytes:
        """Carry out a procedure; return the body of its reply. Raises: GantryError, OSError: it failed."""
        ...


class NodedApplication:
    """An ASGI application over HTTP with TLS."""

    def __init__(self, answering: Answering, bodies: Bodies) -> None:
        self._answering = answering
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            page = await self._page(scope, receive)
        except HungUp:
            return
        except BodyRefused as refused:
            page = error_page(refused.status, refused.text)
        await send({"type": "http.response.start", "status": page.status, "headers": page.headers})
        await send({"type": "http.response.body", "body": page.body, "more_body": False})

    async def _page(self, scope: Scope, receive: Receive) -> NodedReply:
        procedure = str(scope["path"]).removeprefix("/")
        refusal = self._refusal(scope, procedure)
        if refusal is not None:
            await self._bodies.skip(scope, receive)
            return refusal
        async with self._bodies.read(scope, receive) as body:
            return await self._result(procedure, body, _epoch(scope))

    def _refusal(self, scope: Scope, procedure: str) -> NodedReply | None:
        """The page for a request that is not carried out, whatever its body is."""
        digest = caller_of(scope)
        try:
            may_call = self._answering.may_call(digest)
        except GantryError as error:
            return self._failure(error.message)
        if not may_call:
            _log.warning("caller.refused", peer=peer_of(scope), certificate=digest, procedure=procedure)
            return error_page(403, "only master candidates may call this node")
        if scope["method"] != "POST":
            return error_page(400, "procedures are called by POST")
        if not self._answering.has(procedure):
            return error_page(404, f"there is no procedure '{procedure}'")
        return None

    async def _result(self, procedure: str, body: bytes, epoch: str | None) -> NodedReply:
        try:
            result = await self._answering.answer(procedure, body, epoch)
            return result_page(result, self._answering.epoch)
        except GantryError as error:
            _log.warning("call.failed", procedure=procedure, reason=error.message)
            return self._failure(error.message)
        except OSError as error:
            _log.error("call.failed", procedure=procedure, reason=error, path=error.filename)
            return self._failure(f"{procedure} failed: {_text(error)}")
        except Exception as error:
            _log.exception("call.crashed", procedure=procedure)
            return self._failure(f"internal error ({type(error).__name__}) in {procedure}; noded's log tells where")

    def _failure(self, text: str) -> NodedReply:
        return result_page(failure_body(text), self._answering.epoch)


def _text(error: OSError) -> str:
    place = f": '{error.filename}'" if error.filename else ""
    return f"{reason_of(error)}{place}"


def _epoch(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _EPOCH_NAME:
            return bytes(value).decode("ascii", "replace")
    return None


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

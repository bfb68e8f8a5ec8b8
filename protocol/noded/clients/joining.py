"""A machine's connections to the door of the master: the certificate is checked before anything is said.

Source: DESIGN section 13, "Joining".
"""

import hashlib
import http.client
import socket
import ssl
import time
from pathlib import Path
from typing import Final, TypeVar

from common.errors import Denied, ProtocolError, Unavailable
from protocol.noded.joining import MAX_REPLY, NEWS_S, Request, read_body, read_failure, to_body
from protocol.unixsocket import pauses

T = TypeVar("T")

CONNECT_S: Final = 10.0
_REPLY_S: Final = NEWS_S + 40.0


class MasterDoor:
    """Args:
    fingerprint: SHA-256 of the cluster's certificate.
    source: own address to connect from; empty: the system's choice.
    """

    def __init__(self, host: str, port: int, fingerprint: str, source: str = "") -> None:
        self._host = host
        self._port = port
        self._fingerprint = fingerprint
        self._source = source
        # address of this machine as the master sees it; empty until the first call
        self.own_address = source

    def reach(self, patience_s: float) -> None:
        """Make sure that the master is there and shows the right certificate. Raises: as `ask`."""
        self._connected(None, patience_s).close()

    def ask(self, request: Request, kind: type[T], *, certificate: Path | None = None, patience_s: float = 0.0) -> T:
        """Send a request; return the reply.

        Args:
            certificate: PEM of this machine's key and certificate.
            patience_s: time to wait for a master that is not reached.
        Raises:
            Denied: the master shows another certificate; nothing was sent.
            RemoteError: the master refuses, with its reason.
            Unavailable: it is not reached, or the connection was lost. ProtocolError: this is no master.
        """
        sock = self._connected(certificate, patience_s)
        connection = http.client.HTTPConnection(self._host, self._port)
        connection.sock = sock
        try:
            connection.request("POST", request.PATH, to_body(request), {"Connection": "close"})
            reply = connection.getresponse()
            body = reply.read(MAX_REPLY)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the connection to the master {self._place} was lost: {_words(error)}") from error
        finally:
            connection.close()
        if (failure := read_failure(body)) is not None:
            raise failure
        if reply.status != http.HTTPStatus.OK:
            raise ProtocolError(f"{self._place} is no door of a master: it replies with the status {reply.status}")
        return read_body(body, kind, "reply")

    @property
    def _place(self) -> str:
        return f"'{self._host}' port {self._port}"

    def _connected(self, certificate: Path | None, patience_s: float) -> ssl.SSLSocket:
        deadline = time.monotonic() + patience_s
        for pause_s in pauses():
            try:
                return self._connect(certificate)
            except OSError as error:
                if time.monotonic() + pause_s >= deadline:
                    raise Unavailable(
                        f"the master is not reached at {self._place}: {_words(error)}; its port is open while a token "
                        "is valid ('gnt-cluster join-token --list' there tells) and its node daemon runs; is a "
                        "firewall between?"
                    ) from error
            time.sleep(pause_s)
        raise AssertionError("pauses() has no end")

    def _connect(self, certificate: Path | None) -> ssl.SSLSocket:
        source = (self._source, 0) if self._source else None
        sock = socket.create_connection((self._host, self._port), CONNECT_S, source)
        try:
            tls = _context(certificate).wrap_socket(sock)
        except BaseException:
            sock.close()
            raise
        shown = hashlib.sha256(tls.getpeercert(binary_form=True) or b"").hexdigest()
        if shown != self._fingerprint:
            tls.close()
            raise Denied(
                f"{self._place} shows another certificate than the token names ({shown[:16]}... instead of "
                f"{self._fingerprint[:16]}...); nothing was sent to it. Perhaps it is another machine that answers "
                "there, or the certificate of the cluster was renewed: then make a new token"
            )
        self.own_address = tls.getsockname()[0]
        tls.settimeout(_REPLY_S)
        return tls


def _context(certificate: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # the fingerprint takes the place of an authority
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def _words(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]

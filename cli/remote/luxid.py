"""luxid of another machine, for the verbs: each typed request becomes calls of its rapid.

Source: DESIGN section 15; `cli.connection`.
"""

import contextlib
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self, TypeVar, cast
from urllib.parse import urlsplit

from cli.remote import operating as operating
from cli.remote import standing as standing
from cli.remote.requests import carry_out
from common.errors import RemoteError, Unavailable
from protocol.messages import Request
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.clients.connecting import UnknownCertificate
from protocol.rapid.clients.place import Place, fingerprint_of
from protocol.unixsocket import pauses

# they add their rows to the table

R = TypeVar("R")
T = TypeVar("T")
_WHO: Final = "give --token-file FILE, or a user in the address: https://USER@HOST"


class RemoteLuxid:
    """Carries out requests of LUXI at the place; it connects at the first one.

    Raises: InvalidRequest: the file of certificates cannot be used.
    """

    def __init__(self, place: Place) -> None:
        self._client = _LimitedClient(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def close(self) -> None:
        """Nothing is left that a later call could not use."""

    def call(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Carry out one request, which may need several calls, within `timeout_s` seconds.

        Raises: as `BlockingClient.call`; InvalidRequest: no call over HTTP does this.
        """
        try:
            with self._client.within(timeout_s):
                return cast(R, carry_out(request, self._client))
        except RemoteError as error:
            if error.code != "unauthenticated":
                raise
            error.message += f"; {_WHO}"
            raise

    def call_retrying(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.call_retrying`."""
        deadline = time.monotonic() + (timeout_s or 0.0)
        for pause in pauses():
            try:
                return self.call(request)
            except Unavailable:
                if time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)
        raise AssertionError("pauses() has no end")


class _LimitedClient(RapidClient):
    """A client of which several calls together may have a limit of time. For one thread."""

    # instant of the monotonic clock; None: no limit, each call has its usual time
    _until: float | None = None

    @contextmanager
    def within(self, limit_s: float | None) -> Iterator[None]:
        """Limit the calls of the body to so many seconds together; None: no limit."""
        usual = self._timeout_s, self._patience_s
        self._until = None if limit_s is None else time.monotonic() + limit_s
        try:
            yield
        finally:
            self._until = None
            self._timeout_s, self._patience_s = usual

    def run(self, call: HttpCall[T]) -> T:
        """Raises: as `RapidClient`; Unavailable: the time is over."""
        if self._until is not None:
            left_s = self._until - time.monotonic()
            if left_s <= 0:
                raise Unavailable(f"{self.place.name} gave no reply in time")
            # beside what it takes to look up the name of the server
            self._timeout_s, self._patience_s = left_s, min(left_s, self._patience_s)
        return super().run(call)


# What to do about a server whose certificate nobody here knows: its fingerprint, to compare and to pin.
#
# Source: DESIGN section 15.


_TIMEOUT_S: Final = 10.0
_HTTPS: Final = 443


def with_fingerprint(error: Unavailable, place: Place) -> Unavailable:
    """Add to the error the certificate that the server shows, and how to trust it."""
    if not isinstance(error, UnknownCertificate):
        return error
    seen = _shown_by(place)
    if seen is None:
        return error
    return Unavailable(
        f"{error.message}; it shows sha256:{seen}; if the server has the same, by 'openssl x509 -noout -fingerprint "
        f"-sha256 -in rapi.pem' there, add --fingerprint sha256:{seen}, or --ca with a copy of the certificate"
    )


def _shown_by(place: Place) -> str | None:
    """The fingerprint of the certificate that is shown; None: it shows none any more. No secret is sent."""
    address = urlsplit(place.url)
    with contextlib.suppress(OSError, ValueError):
        text = ssl.get_server_certificate((address.hostname or "", address.port or _HTTPS), timeout=_TIMEOUT_S)
        return fingerprint_of(ssl.PEM_cert_to_DER_cert(text))
    return None

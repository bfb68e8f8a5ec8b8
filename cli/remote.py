"""luxid of another machine, for the verbs: the messages of the Unix socket, sent over HTTPS to its rapid.

Nothing here is imported by a command that works on this machine.

Source: DESIGN section 15; `protocol.rapid.luxi`; `cli.connection`.
"""

import contextlib
import queue
import ssl
import threading
import time
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import urlsplit

import attrs

from cli.screen import show_note
from common.errors import GantryError, NotFound, RemoteError, Unavailable
from common.system.shortages import start_thread
from protocol.conversation import Retries
from protocol.envelope import read_event, read_reply, result_of
from protocol.framing import MAX_REPLY, Framer
from protocol.luxi.jobs import AutoArchiveJobs, ReadJobOutput
from protocol.messages import Request, structure_reply
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.calls import HttpCall, pass_luxi
from protocol.rapid.clients.connecting import POLL_S, UnknownCertificate, stream_options
from protocol.rapid.clients.place import Place, fingerprint_of
from protocol.rapid.luxi import STREAM_TYPE

R = TypeVar("R")
_WHO: Final = "give --token-file FILE, or $GANTRY_TOKEN"
_OLDER: Final = "is the Gantry there older than this one?"


class RemoteLuxid:
    """Carries out requests of LUXI at the place; it connects at the first one.

    Raises: InvalidRequest: the file of certificates cannot be used.
    """

    def __init__(self, place: Place) -> None:
        self._client = RapidClient(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def close(self) -> None:
        """Nothing is left that a later call could not use."""

    def call(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Carry out one request, within `timeout_s` seconds.

        Raises: as `BlockingClient.call`.
        """
        try:
            reply = self._client.run(_call_of(request), limit_s=timeout_s)
        except RemoteError as error:
            raise _with_hint(error) from None
        return structure_reply(type(request), result_of(reply, show_note))

    def call_retrying(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.call_retrying`."""
        silence = Unavailable(f"{self._client.place.name} gave no answer to {request.METHOD} in time")
        retries = Retries(timeout_s or 0.0, time.monotonic, silence)
        while True:
            try:
                return self.call(request)
            except Unavailable as error:
                retries.failed(error)
            time.sleep(retries.pause_s())


def _call_of(request: Request[R]) -> HttpCall[object]:
    """The call; one that waits waits less than a proxy would let it, and then its caller asks again."""
    if isinstance(request, ReadJobOutput):
        waits_s = min(request.timeout, POLL_S)
        return pass_luxi(attrs.evolve(request, timeout=waits_s), waits_s)
    return pass_luxi(request, float(request.timeout) if isinstance(request, AutoArchiveJobs) else 0.0)


def _with_hint(error: RemoteError) -> RemoteError:
    """The refusal of rapid itself, with what to do about it."""
    hint = {"unauthenticated": _WHO, NotFound.code: _OLDER}.get(error.code)
    if hint is not None:
        error.message += f"; {hint}"
    return error


_Told = queue.SimpleQueue[bytes | GantryError | OSError]

# seconds within which a thread whose connection is closed has ended
_ENDS_S: Final = 1.0


class RemoteFeed:
    """luxid's feed there. It is read in a thread, as a wait that is cut off would cost the connection."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._client: RapidClient | None = None
        self._thread: threading.Thread | None = None
        self._told: _Told = queue.SimpleQueue()

    def close(self) -> None:
        """Close the connection; the thread ends with it."""
        if self._client is not None and self._thread is not None:
            self._client.hang_up()
            self._thread.join(_ENDS_S)
        self._client = self._thread = None

    def subscribe(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.subscribe`. NoThread."""
        self.close()
        self._client, self._told = RapidClient(self._place), queue.SimpleQueue()
        args = (self._client, pass_luxi(request), self._told)
        thread = threading.Thread(target=_read, args=args, daemon=True)
        start_thread(thread)
        self._thread = thread
        reply = self._next(timeout_s)
        if reply is None:
            raise Unavailable(f"{self._place.name} gave no answer to {request.METHOD} in time")
        return structure_reply(type(request), read_reply(reply, show_note))

    def event(self, timeout_s: float | None = None) -> tuple[str, list[object]] | None:
        """Raises: as `BlockingClient.event`."""
        message = self._next(timeout_s)
        return None if message is None else read_event(message)

    def _next(self, timeout_s: float | None) -> bytes | None:
        try:
            told = self._told.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(told, RemoteError):
            raise _with_hint(told)
        if isinstance(told, Exception):
            raise told
        return told


def _read(client: RapidClient, call: HttpCall[object], told: _Told) -> None:
    framer = Framer(MAX_REPLY)
    with client:
        try:
            for content in client.pieces(call, stream_options(call, kind=STREAM_TYPE), STREAM_TYPE):
                for message in framer.feed(content):
                    told.put(message)
            told.put(Unavailable(f"{client.place.name} ended the stream of events"))
        except (GantryError, OSError) as error:
            told.put(error)


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

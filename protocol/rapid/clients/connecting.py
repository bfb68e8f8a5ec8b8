"""What the clients for programs with and without a loop share: how they reach a server and read what it sends.

Source: DESIGN section 15.
"""

import socket
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NoReturn, TypedDict, TypeVar

import httpx2
import orjson

from common.errors import InvalidRequest
from common.printable import printable
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.clients.place import Place, WrongFingerprint, errors_behind, make_context
from protocol.rapid.clients.replies import Failure, HttpReply, LostReply, NoReply, refuse
from protocol.rapid.events import PING_S

T = TypeVar("T")

# a server closes connections that were idle for longer (10 s), and a call must not meet that
_KEPT_S: Final = 5.0
CONNECT_S: Final = 10.0
# seconds that one call waits at most: a proxy cuts at 60
POLL_S: Final = 50.0
# media type of server-sent events
EVENTS: Final = "text/event-stream"


class ClientOptions(TypedDict):
    """Arguments of httpx2's clients."""

    base_url: str
    headers: dict[str, str]
    auth: httpx2.Auth | None
    follow_redirects: bool
    verify: ssl.SSLContext
    limits: httpx2.Limits


class RequestOptions(TypedDict):
    """Arguments of a request."""

    params: dict[str, str]
    content: bytes | None
    headers: dict[str, str]
    timeout: httpx2.Timeout


def options(place: Place) -> ClientOptions:
    """Raises: InvalidRequest: the file of certificates cannot be read."""
    credentials = place.credentials
    headers = {"Accept": "application/json, application/problem+json", "User-Agent": "gantry"}
    if credentials.token is not None:
        headers["Authorization"] = f"Bearer {credentials.token}"
    auth = None
    if credentials.token is None and credentials.user is not None:
        auth = httpx2.BasicAuth(credentials.user, credentials.password or "")
    return {
        "base_url": place.url,
        "headers": headers,
        "auth": auth,
        # never followed: a redirect elsewhere would take the token with it
        "follow_redirects": False,
        "verify": _context(place),
        "limits": httpx2.Limits(keepalive_expiry=_KEPT_S),
    }


def _context(place: Place) -> ssl.SSLContext:
    # without TLS the context is not used, and nothing is trusted
    return make_context(place.trust) if place.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def request_options(call: HttpCall[T], timeout_s: float) -> RequestOptions:
    """The arguments of a call's request.

    Args: timeout_s: seconds for the reply, beside the time that the call waits for something.
    Raises: InvalidRequest: JSON has no such values.
    """
    headers = dict(call.headers)
    content = None
    if call.body is not None:
        try:
            content = orjson.dumps(call.body)
        except TypeError as error:
            raise InvalidRequest(f"{call.verb} {call.path} cannot be sent: {error}") from error
        headers["Content-Type"] = "application/json"
    return {
        "params": dict(call.params),
        "content": content,
        "headers": headers,
        "timeout": httpx2.Timeout(timeout_s + call.waits_s, connect=min(timeout_s, CONNECT_S)),
    }


def read_reply(response: httpx2.Response) -> HttpReply:
    """A response whose body was read."""
    return HttpReply(response.status_code, _lower(response.headers), response.content)


def stream_options(call: HttpCall[T], last_id: str = "", kind: str = EVENTS) -> RequestOptions:
    """Arguments of the request for a stream.

    Args: last_id: id of the last event that is known; or "". kind: the media type of the stream.
    """
    options = request_options(call, CONNECT_S)
    options["headers"] |= {"Accept": kind, **({"Last-Event-ID": last_id} if last_id else {})}
    # a server that says nothing for two pings is gone
    options["timeout"] = httpx2.Timeout(CONNECT_S, read=2 * PING_S + CONNECT_S)
    return options


def refuse_stream(call: HttpCall[T], response: httpx2.Response, place: Place) -> NoReturn:
    """Raise the error for a response that is no stream of events, and whose body was read.

    Raises: RemoteError, NoReply: as `refuse`.
    """
    refuse(call, read_reply(response), place.name)


def is_stream(response: httpx2.Response, kind: str = EVENTS) -> bool:
    """Whether the response is a stream of this media type."""
    given = _lower(response.headers).get("content-type", "")
    return bool(response.status_code == HTTPStatus.OK) and given.startswith(kind)


def _lower(headers: httpx2.Headers) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers.items()}


# What httpx2 raises when no reply came, as our errors, with the next step.


_NEVER_SENT: Final = Failure(may_have_arrived=False)
# of OpenSSL: the certificate is for another name, or for no name at all
_OTHER_NAME: Final = 62
_OVER: Final = 10
# of h11, in texts on what is not HTTP; without it, the connection was closed too early
_ILLEGAL: Final = "illegal"
_REFUSED: Final = "; is the address right, and is rapid enabled and running there?"


class UnknownCertificate(NoReply):
    """Nobody whom this machine trusts has signed the server's certificate."""


def explain_failure(error: httpx2.RequestError, place: Place, *, is_harmless: bool = True) -> NoReply:
    """The error for a call that got no reply.

    Args: is_harmless: as of the call: then nobody needs to know whether it was carried out.
    """
    for cause in errors_behind(error):
        if isinstance(cause, ssl.SSLError):
            return _explain_tls(cause, place)
        if isinstance(cause, socket.gaierror):
            return NoReply(f"{place.name} cannot be found: nobody knows this name; is the address right?")
    if isinstance(error, httpx2.ConnectTimeout):
        return NoReply(f"{place.name} cannot be reached in time{_REFUSED}", _NEVER_SENT)
    if isinstance(error, httpx2.ConnectError):
        return NoReply(f"{place.name} cannot be reached: {_reason(error)}{_REFUSED}", _NEVER_SENT)
    if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout | httpx2.PoolTimeout):
        return NoReply(f"{place.name} gave no reply in time", Failure(may_have_arrived=True))
    if isinstance(error, httpx2.RemoteProtocolError) and _ILLEGAL in str(error):
        text = printable(str(error))[:100]
        return NoReply(f"{place.name} does not speak HTTP: {text}; is the address right?")
    if isinstance(error, httpx2.TransportError | httpx2.DecodingError):
        hint = "; is it an https:// address?" if place.url.startswith("http:") and place.socket is None else ""
        text = f"{place.name} closed the connection before it replied{hint}"
        return NoReply(text, Failure(may_have_arrived=True)) if is_harmless else LostReply(text)
    return NoReply(f"{place.name} cannot be called: {printable(str(error))[:100]}")


def _explain_tls(error: ssl.SSLError, place: Place) -> NoReply:
    if isinstance(error, WrongFingerprint):
        return NoReply(
            f"{place.name} shows the certificate sha256:{error.seen}, not the one that was pinned; nothing was sent; "
            "if it was renewed there, pin the new one, else someone is in between"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _OVER:
            return NoReply(f"the certificate of {place.name} is over; it must be renewed there; nothing was sent")
        if error.verify_code == _OTHER_NAME:
            return UnknownCertificate(
                f"the certificate of {place.name} is for another name; nothing was sent; pin it by its fingerprint, "
                "or use the name that it has"
            )
        return UnknownCertificate(
            f"nobody known here has signed the certificate of {place.name} (it may have signed itself); nothing was "
            "sent; trust it by its file, or pin its fingerprint"
        )
    reason = (error.reason or "unknown reason").lower().replace("_", " ")
    return NoReply(f"no TLS connection to {place.name}: {reason}; is it an https:// address?")


def _reason(error: httpx2.ConnectError) -> str:
    for cause in errors_behind(error):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
    return printable(str(error)).lower()[:100]

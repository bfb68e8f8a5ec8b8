"""What the clients for programs with and without a loop share: how they reach a server and read what it sends.

Source: DESIGN section 15.
"""

import ssl
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, NoReturn, TypedDict, TypeVar

import httpx2
import orjson

from common.errors import InvalidRequest
from common.queue.jobs import FINAL_NAMES
from protocol.rapid.clients.httpcall import HttpCall
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.replies import HttpReply, refuse
from protocol.rapid.clients.tls import make_context
from protocol.rapid.events import PING_S
from protocol.rapid.jobs import Job

T = TypeVar("T")

# a server closes connections that were idle for longer (10 s), and a call must not meet that
_KEPT_S: Final = 5.0
CONNECT_S: Final = 10.0
# seconds that one call waits at most: a proxy cuts at 60
POLL_S: Final = 50.0


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


def stream_options(call: HttpCall[T], last_id: str) -> RequestOptions:
    """Arguments of the request for a stream of events. Args: last_id: id of the last event that is known; or ""."""
    options = request_options(call, CONNECT_S)
    options["headers"] |= {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
    # a server that says nothing for two pings is gone
    options["timeout"] = httpx2.Timeout(CONNECT_S, read=2 * PING_S + CONNECT_S)
    return options


def refuse_stream(call: HttpCall[T], response: httpx2.Response, place: Place) -> NoReturn:
    """Raise the error for a response that is no stream of events, and whose body was read.

    Raises: RemoteError, NoReply: as `refuse`.
    """
    refuse(call, read_reply(response), place.name)


def is_stream(response: httpx2.Response) -> bool:
    """Whether the response is a stream of events."""
    kind = _lower(response.headers).get("content-type", "")
    return bool(response.status_code == HTTPStatus.OK) and kind.startswith("text/event-stream")


def _lower(headers: httpx2.Headers) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def is_awaited(job: Job, states: Sequence[str]) -> bool:
    """Whether a job is in one of these states, or has ended."""
    status = None if job.status is None else job.status.value
    return status in states or status in FINAL_NAMES

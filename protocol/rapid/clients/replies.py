"""Replies of /3 as values, or as the errors of `common.errors`.

Theory. Three things can come: what the call gives; a problem, by a daemon that has read the call; and anything else,
which is not Gantry's: the page of a proxy, or of another server at this address. Only a problem is an error of the
call (`RemoteError`, with its code). One with `Retry-After` is as good as no reply: the server asks to be called again.

Source: RFC 9457.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NoReturn, TypeVar

import attrs
import orjson

from common.errors import InvalidRequest, JobLost, NotFound, RemoteError
from common.printable import printable
from common.wire import structure
from protocol.rapid.clients.httpcall import HttpCall
from protocol.rapid.clients.retries import Failure, NoReply
from protocol.rapid.problems import MEDIA_TYPE

T = TypeVar("T")

_JOB_PATH: Final = re.compile(r"/3/jobs/(\d+(/|$)|follow$)")
_KNOWN: Final = frozenset({"type", "title", "status", "detail", "instance", "code"})
# parameters of `RemoteError`, which no fact may take
_OF_ERRORS: Final = frozenset({"self", "message", "code", "wire_name", "wire_args"})
# longest wait that a server can ask for, seconds
_LONGEST_S: Final = 60.0
# seconds after which a server is asked again that has told of another master
_MOVING_S: Final = 5.0
_SHOWN: Final = 120
# of a proxy whose server is away, perhaps for a moment
_OF_PROXIES: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


@attrs.frozen
class HttpReply:
    """What came back."""

    status: int
    # names in lower case
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which the server wants to be asked again; None: it does not say so."""
        text = self.headers.get("retry-after", "").strip()
        return min(float(text), _LONGEST_S) if text.isascii() and text.isdigit() else None


def read_value(call: HttpCall[T], reply: HttpReply, server: str) -> T:
    """The value of a call.

    Args: server: the server in error texts.
    Raises:
        RemoteError: the server refuses the call.
        NoReply: it asks to be called again; or what replies there does not speak this interface.
    """
    if not 200 <= reply.status < 300:
        refuse(call, reply, server)
    if reply.status == HTTPStatus.NO_CONTENT:
        return structure(None, call.gives)
    try:
        if reply.media_type != "application/json":
            raise InvalidRequest("it is not JSON")
        return structure(orjson.loads(reply.body), call.gives, f"reply to {call.verb} {call.path}")
    except (orjson.JSONDecodeError, InvalidRequest) as error:
        raise _stranger(reply, server) from error


def refuse(call: HttpCall[T], reply: HttpReply, server: str) -> NoReturn:
    """Raise the error that a reply with another status than a success stands for. Raises: as `read_value`."""
    problem = _problem(reply)
    if problem is None:
        raise _stranger(reply, server)
    detail, code = str(problem.get("detail") or _words(reply.status)), str(problem.get("code") or "internal")
    if reply.status == HTTPStatus.SERVICE_UNAVAILABLE and isinstance(elsewhere := problem.get("url"), str):
        # another node is the master; an address that follows it is served again soon
        address = elsewhere.partition("/3")[0]
        failure = Failure(may_have_arrived=False, retry_after_s=reply.retry_after_s or _MOVING_S)
        raise NoReply(f"{server}: {detail}; the cluster is served at {printable(address)[:_SHOWN]}", failure)
    if reply.status == HTTPStatus.SERVICE_UNAVAILABLE and reply.retry_after_s is not None:
        raise NoReply(f"{server}: {detail}", Failure(may_have_arrived=True, retry_after_s=reply.retry_after_s))
    if reply.status == HTTPStatus.UNAUTHORIZED:
        detail = f"{server} does not know who calls: {detail}"
    facts = {name: value for name, value in problem.items() if name not in _KNOWN and name.isidentifier()}
    wire_name = JobLost.wire_name if code == NotFound.code and _JOB_PATH.match(call.path) else "GenericError"
    raise RemoteError(detail, code=code, wire_name=wire_name, wire_args=[detail], **_without_clashes(facts))


def _without_clashes(facts: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in facts.items() if name not in _OF_ERRORS}


def _problem(reply: HttpReply) -> Mapping[str, object] | None:
    """The problem details; None: the body has none."""
    if reply.media_type != MEDIA_TYPE:
        return None
    try:
        value = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _stranger(reply: HttpReply, server: str) -> NoReply:
    """The error for a reply that Gantry does not give."""
    where = reply.headers.get("location")
    leads = f", which leads to '{printable(where)[:_SHOWN]}'" if where else ""
    kind = f" with {printable(reply.media_type)[:_SHOWN]}" if reply.media_type else ""
    failure = Failure(may_have_arrived=True) if reply.status in _OF_PROXIES else None
    return NoReply(
        f"{server} does not reply as Gantry does, but by {_words(reply.status)}{kind}{leads}; "
        "is the address right, or is a proxy in between?",
        failure,
    )


def _words(status: int) -> str:
    """A status with its phrase, if it has one."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)

"""Replies of /3 as values, or as the errors of `common.errors`.

Theory. Three things can come: what the call gives; a problem, by a daemon that has read the call; and anything else,
which is not Gantry's: the page of a proxy, or of another server at this address. Only a problem is an error of the
call (`RemoteError`, with its code). One with `Retry-After` is as good as no reply: the server asks to be called again.

Source: RFC 9457.
"""

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final, NoReturn, TypeVar

import attrs
import orjson

from common.errors import ConnectionLost, InvalidRequest, JobLost, NotFound, ProtocolError, RemoteError, Unavailable
from common.printable import printable
from common.wire import structure
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.events import (
    Begin,
    DaemonsState,
    FiltersChanged,
    JobsChanged,
    LocksChanged,
    QueueChanged,
    ReasonsChanged,
)
from protocol.rapid.problems import MEDIA_TYPE

# Whether and when a call that failed is sent again: a decision without a clock.
#
# Theory. A call that was not delivered may always be sent again. One that may have been delivered is repeated only if a
# second delivery does no harm: reading, and submissions with a key. Pauses double from a tenth of a second to two
# seconds, with a random part, so that many clients of a server that was restarted do not come at once.
#
# Source: DESIGN section 4.


FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
# seconds of all attempts together: of a server that has replied before, and of one that has not, perhaps for ever
PATIENCE_S: Final = 60.0
FIRST_PATIENCE_S: Final = 2.0


@attrs.frozen
class Failure:
    """An attempt that got no value."""

    # whether the server may have received the call
    may_have_arrived: bool
    # seconds after which the server wants to be asked again; None: it did not say
    retry_after_s: float | None = None


class NoReply(Unavailable):
    """No reply of Gantry came.

    Args: failure: None: another attempt would not help.
    """

    def __init__(self, message: str, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


class LostReply(NoReply, ConnectionLost):
    """The connection broke after the call was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Failure(may_have_arrived=True))


def next_pause(
    failure: Failure | None, attempt: int, spent_s: float, patience_s: float, chance: float, *, is_repeatable: bool
) -> float | None:
    """Seconds to wait before the next attempt; None: there is none.

    Args:
        attempt: number of attempts so far, from 1.
        spent_s: seconds since the first attempt began.
        chance: a random number from 0 to 1.
    """
    if failure is None or (failure.may_have_arrived and not is_repeatable):
        return None
    pause: float = min(FIRST_PAUSE_S * 2 ** min(attempt - 1, 10), LONGEST_PAUSE_S) * (0.5 + chance / 2)
    if failure.retry_after_s is not None:
        pause = max(pause, failure.retry_after_s)
    return pause if spent_s + pause < patience_s else None


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


# Server-sent events from bytes, without I/O.
#
# Source: WHATWG HTML, "Server-sent events", 9.2.5 and 9.2.6.


# bytes of one event; one of ours is far smaller
MAX_EVENT: Final = 64 * 2**20


@attrs.frozen
class Event:
    """An event: its name, its data as text, and the id with which a later stream goes on after it."""

    name: str
    data: str
    # "": none was sent so far
    id: str


@attrs.define
class EventParser:
    """Turns the bytes of a stream into events.

    Args: last_id: id of the last event of an earlier stream.
    """

    last_id: str = ""
    # seconds after which the server wants to be asked again when the stream breaks; None: it did not say
    retry_s: float | None = None
    # pieces after the last line; joined only when the line is complete, as it may come in thousands of them
    _rest: list[bytes] = attrs.field(factory=list)
    # whether the last byte was a carriage return, whose line feed may come in the next piece
    _after_return: bool = False
    _is_begun: bool = False
    _name: str = ""
    _data: list[str] = attrs.field(factory=list)
    _size: int = 0

    def feed(self, content: bytes) -> Iterator[Event]:
        """The events that are complete now. Raises: ProtocolError: an event is too large."""
        for line in self._lines(content):
            event = self._take(line)
            if event is not None:
                yield event

    def failure(self) -> Failure:
        """What it means that the stream ended."""
        return Failure(may_have_arrived=True, retry_after_s=self.retry_s)

    def _lines(self, content: bytes) -> list[str]:
        if self._after_return and content:
            content = content.removeprefix(b"\n")
            self._after_return = False
        if content.endswith(b"\r"):
            self._after_return = True
        self._size += len(content)
        if self._size > MAX_EVENT:
            raise ProtocolError(f"an event has more than {MAX_EVENT // 2**20} MiB")
        self._rest.append(content)
        if b"\n" not in content and b"\r" not in content:
            return []
        lines = b"".join(self._rest).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = [lines.pop()]
        texts = [line.decode(errors="replace") for line in lines]
        if texts and not self._is_begun:
            self._is_begun = True
            texts[0] = texts[0].removeprefix("\ufeff")
        return texts

    def _take(self, line: str) -> Event | None:
        if not line:
            return self._end()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self.last_id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_s = int(value) / 1000
            case _:
                # a comment, or a field of a newer server
                pass
        return None

    def _end(self) -> Event | None:
        name, data = self._name or "message", self._data
        self._name, self._data, self._size = "", [], sum(map(len, self._rest))
        return Event(name, "\n".join(data), self.last_id) if data else None


# Events of `GET /3/events` as typed values.
#
# Source: `protocol.rapid.events`.


NewsValue = Begin | DaemonsState | JobsChanged | ReasonsChanged | LocksChanged | FiltersChanged | QueueChanged

_CLASSES: Final[Mapping[str, type[NewsValue]]] = {
    "begin": Begin,
    "state": DaemonsState,
    "jobs": JobsChanged,
    "locks": LocksChanged,
    "filters": FiltersChanged,
    "queue": QueueChanged,
}


@attrs.frozen
class News:
    """An event, and the id with which a later stream goes on after it."""

    value: NewsValue
    id: str


def read_news(event: Event) -> News | None:
    """The event with its value; None: only a newer server has such events.

    Raises: ProtocolError, InvalidRequest: its value has another shape.
    """
    if event.name == "reasons":
        return News(ReasonsChanged(), event.id)
    kind = _CLASSES.get(event.name)
    if kind is None:
        return None
    try:
        value = orjson.loads(event.data)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"event '{event.name}' is not JSON: {error}") from error
    return News(structure(value, kind, f"event {event.name}"), event.id)

"""The base of the calls of node daemons: a procedure's name, its arguments in order, its reply, its limit of time.

    @attrs.frozen
    class JobqueueUpdate(NodeCall[None]):
        METHOD = "jobqueue_update"
        LIMIT_S = URGENT_S
        file_name: str
        content: Content

Bodies of requests are JSON lists of the arguments; those of calls without arguments are not looked at, because some
of Ganeti's callers send `{}` there.

Source: noded.md sections 2, 4 and 5.
"""

import base64
import binascii
import enum
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import attrs
import orjson

from common.errors import GantryError, InvalidRequest, ProtocolError
from common.jsontext import ascii_json, read_json
from common.shapes import OwnForm
from common.wire import expected
from protocol.messages import Request, positional, structure_reply, structure_request

# classes of limits, seconds
URGENT_S: Final = 60.0
FAST_S: Final = 300.0
NORMAL_S: Final = 900.0
SLOW_S: Final = 3600.0
# largest request that a node daemon takes, bytes
MAX_REQUEST: Final = 10 * 2**20
# header of a request with the epoch of its master, and of a reply with the highest epoch that the node has seen; ours
EPOCH_HEADER: Final = "X-Gantry-Epoch"

R = TypeVar("R")


class NodeCall(Request[R]):
    """Base of all calls; `R` is the type of the reply's payload."""

    # limit for connecting, sending and the reply together, unless the caller gives another one
    LIMIT_S: ClassVar[float] = NORMAL_S
    # whether nodes that are marked offline are asked as well
    ASKS_OFFLINE: ClassVar[bool] = False
    # whether a second delivery does no harm and gets the same reply
    REPEATABLE: ClassVar[bool] = True

    @property
    def limit_s(self) -> float:
        """Seconds that the call may take."""
        return self.LIMIT_S

    @property
    def carried_bytes(self) -> int:
        """Bytes of file contents in the request: packing many of them takes time."""
        return 0

    def to_wire(self) -> object:
        """The JSON value of the request."""
        return positional(self)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Read the JSON value of a request.

        Raises: InvalidRequest: not a list, too many or too few arguments, or a wrong one.
        """
        if not attrs.fields(cls):  # type: ignore[arg-type]  # subclasses are attrs classes
            return cls()
        if not isinstance(value, list):
            raise InvalidRequest(f"invalid arguments of {cls.METHOD}: {expected('a list', value)}")
        return structure_request(cls, value)

    def accepts(self, reply: R) -> bool:
        """Whether a reply of the right type fits this call."""
        return True


# call of any procedure
AnyCall = NodeCall[Any]
C = TypeVar("C", bound=AnyCall)


def request_body(call: AnyCall) -> bytes:
    """The body of the HTTP request, as LuxiD and WConfD write it."""
    return ascii_json(call.to_wire())


def request_bodies(calls: Iterable[AnyCall]) -> Mapping[int, bytes]:
    """The bodies of these calls by the identity of the call: one that goes to many nodes is written once."""
    different = {id(call): call for call in calls}
    return {identity: request_body(call) for identity, call in different.items()}


def read_request(kind: type[C], body: bytes) -> C:
    """Read the body of an HTTP request for this procedure.

    Raises: InvalidRequest: the body is not JSON, or the arguments do not fit.
    Cost: contents of files are unpacked, up to their limit; for large bodies, call it in a thread.
    """
    try:
        value = read_json(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body of {kind.METHOD} is not JSON: {error}") from None
    return kind.from_wire(value)


# The contents of files on the wire: `[encoding, text]`.
#
# Theory. Encoding 0 is the content as a JSON string; 1 is base64 of a zlib stream. Ganeti's Haskell daemons take a
# string for Latin-1 when they pack it, its Python daemon writes an unpacked string as UTF-8: both agree only on ASCII.
# So content that is not ASCII is always packed here, which carries bytes, whatever its size; and a string that arrives
# is written as UTF-8, as Ganeti's node daemon does.
#
# Source: noded.md section 7.


# content is packed from this size, in bytes; receivers take both encodings for any size
PACKED_FROM: Final = 4096
# Ganeti's level: the packed bytes are the same
LEVEL: Final = 3
# limit of content in bytes: a packed request of 10 MiB could unpack to 10 GiB
MAX_CONTENT: Final = 64 * 2**20
PLAIN: Final = 0
PACKED: Final = 1


@attrs.frozen
class Content(OwnForm):
    """The content of a file."""

    data: bytes

    def to_wire(self) -> object:
        if len(self.data) < PACKED_FROM and self.data.isascii():
            return [PLAIN, self.data.decode("ascii")]
        return [PACKED, base64.b64encode(zlib.compress(self.data, LEVEL)).decode("ascii")]

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Raises: InvalidRequest: another form, not base64, not a zlib stream, or beyond `MAX_CONTENT`."""
        match value:
            # a boolean equals 0 or 1
            case [int(encoding), str(text)] if encoding == PLAIN and encoding is not False:
                return cls(_plain(text))
            case [int(encoding), str(text)] if encoding == PACKED and encoding is not True:
                return cls(_unpacked(text))
            case _:
                raise expected("[0, text] or [1, base64 of a zlib stream]", value)


def _plain(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the content is not text: lone surrogate at character {error.start}") from None
    if len(data) > MAX_CONTENT:
        raise _too_large()
    return data


def _unpacked(text: str) -> bytes:
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"the packed content is not base64: {error}") from None
    unpacker = zlib.decompressobj()
    try:
        # one byte more than allowed, so that the limit itself passes
        data = unpacker.decompress(packed, MAX_CONTENT + 1)
    except zlib.error as error:
        raise InvalidRequest(f"the packed content is not a zlib stream: {error}") from None
    if len(data) > MAX_CONTENT:
        raise _too_large()
    if not unpacker.eof or unpacker.unused_data:
        fault = "has bytes after its end" if unpacker.eof else "breaks off"
        raise InvalidRequest(f"the packed content is not a zlib stream: it {fault}")
    return data


def _too_large() -> InvalidRequest:
    return InvalidRequest(f"the content has more than {MAX_CONTENT} bytes, the limit; send less", limit=MAX_CONTENT)


# Bodies of replies: `[true, payload]` or `[false, text]`, and a newline.
#
# Source: noded.md section 4.


NO_TEXT = "the node daemon gave no reason"


class CallRefused(GantryError):
    """a node daemon refused a call"""

    code = "conflict"


def reply_body(kind: type[NodeCall[R]], reply: R) -> bytes:
    """The body of the reply to a call that was carried out, as Ganeti's node daemon writes it."""
    return _body(True, kind.write_reply(reply))


def failure_body(text: str) -> bytes:
    """The body of the reply to a call that failed."""
    return _body(False, text)


def _body(success: bool, payload: object) -> bytes:
    # with spaces, as Ganeti's
    return json.dumps([success, payload], allow_nan=False).encode("ascii") + b"\n"


def read_reply(call: NodeCall[R], body: bytes) -> R:
    """Read the payload of a reply to this call.

    Raises:
        CallRefused: the reply is a failure; the text is the node daemon's.
        ProtocolError: the body is not a reply, or not one to this call.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"the reply is not JSON: {error}, it begins with {body[:40]!r}") from None
    match value:
        case [True, payload]:
            return _payload(call, payload)
        case [False, str(text)]:
            raise CallRefused(text or NO_TEXT)
        case _:
            raise ProtocolError(f"the reply is not [success, payload], it begins with {body[:40]!r}")


def _payload(call: NodeCall[R], payload: object) -> R:
    try:
        reply = structure_reply(type(call), payload)
    except GantryError as error:
        raise ProtocolError(error.message) from error
    if not call.accepts(reply):
        raise ProtocolError(f"the reply to {call.METHOD} does not fit its arguments: {str(payload)[:40]}")
    return reply


# The nodes that calls are sent to.
#
# Source: noded.md sections 1 and 2.


PORT: Final = 1811


@attrs.frozen
class NodeAddress:
    """A node as the configuration has it."""

    name: str
    # its primary address, IPv4 or IPv6; names are not looked up
    ip: str
    port: int = PORT
    # marked offline by an operator: only calls that say so are sent to it
    offline: bool = False

    @property
    def place(self) -> str:
        """Address and port, as in an URL."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"

    def __str__(self) -> str:
        return f"node '{self.name}' at {self.place}"


# What a call came to at one node: a reply, a failure, or nothing because the node is offline.
#
# A call to many nodes returns one of these for each node, and never raises for one of them.
#
# Source: noded.md section 4.


class FailureKind(enum.Enum):
    # no connection was made
    UNREACHABLE = "unreachable"
    # the certificates of the two do not fit
    UNTRUSTED = "untrusted"
    # not sent, because the node has failed and its pause is not over
    PAUSED = "paused"
    # not sent, because of a fault here: our certificate cannot be read, or the request is too large
    UNSENT = "unsent"
    # no reply in time
    TIMEOUT = "timeout"
    # the connection broke before the whole reply was there
    LOST = "lost"
    # the reply is not one of a node daemon
    GARBLED = "garbled"
    # another node has become the master: the caller must stop
    OUTDATED = "outdated"
    # a node daemon's own failure: `[false, text]`, or a page with a status other than 200
    REFUSED = "refused"
    # it does not know this procedure: one of Ganeti's gets a call of ours, or an older one a newer call
    UNKNOWN = "unknown"

    @property
    def may_have_acted(self) -> bool:
        """Whether the node may have carried out the call, or a part of it."""
        return self in _MAY_HAVE_ACTED

    @property
    def is_silence(self) -> bool:
        """Whether no node daemon was heard that could have replied: it is asked less often then."""
        return self in _SILENCE

    @property
    def is_sign_of_life(self) -> bool:
        """Whether the node replied, if badly."""
        return self in (FailureKind.GARBLED, FailureKind.OUTDATED, FailureKind.REFUSED, FailureKind.UNKNOWN)


_MAY_HAVE_ACTED = frozenset({FailureKind.TIMEOUT, FailureKind.LOST, FailureKind.GARBLED, FailureKind.REFUSED})
_SILENCE = frozenset({FailureKind.UNREACHABLE, FailureKind.UNTRUSTED, FailureKind.TIMEOUT, FailureKind.LOST})


class Breakdown(Exception):
    """A call to one node has failed; clients turn it into that node's outcome."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text

    @property
    def failed(self) -> "Failed":
        return Failed(self.kind, self.text)


@attrs.frozen
class Replied(Generic[R]):
    """The node has carried out the call; `value` is its reply."""

    value: R
    # highest epoch of a master that the node has seen; None: it knows none, as Ganeti's
    epoch: int | None = attrs.field(default=None, eq=False)


@attrs.frozen
class Failed:
    """The node has not replied, or has refused."""

    kind: FailureKind
    # for users; names the node and its address
    text: str
    # HTTP status of the reply, if it is not 200
    status: int | None = None


@attrs.frozen
class Skipped:
    """The node is marked offline and was not asked."""


Outcome = Replied[R] | Failed | Skipped

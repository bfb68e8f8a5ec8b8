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

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar

import attrs
import orjson

from common.asciijson import ascii_json
from common.errors import InvalidRequest
from common.jsonreading import read_json
from common.shapehooks import expected
from protocol.messages import Request, positional, structure_request

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

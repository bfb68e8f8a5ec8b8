"""A row of rapid's table, and what its handler sees and returns.

Theory. One table of calls makes the routes, the checks before a handler (who calls, with which right, with what body)
and the OpenAPI document. So no check can be forgotten, and the document cannot lie.

Source: DESIGN section 15.
"""

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import attrs
from starlette.requests import Request as HttpRequest

from common.webaccess.rights import Principal, Right
from protocol.client import Client
from protocol.luxi.feed import Subscribe
from protocol.messages import AnyRequest, Request

# key of a request's scope: it only waits for an event, so that the time that it takes tells nothing
WAITS: Final = "gantry.waits"
R = TypeVar("R")
T = TypeVar("T")


class Face(enum.Enum):
    """The style of a part: how its errors look, and how bodies are checked."""

    # Ganeti's resources: rapi.md
    GANETI = "ganeti"
    # ours under /3: problem details
    OURS = "ours"
    # pages for people
    PAGE = "page"


class Daemons(Protocol):
    """The daemons behind rapid, called in the name of the caller with the role that this call gives."""

    # what luxid has told for people beside its results
    @property
    def notes(self) -> Sequence[str]: ...

    async def luxid(self, request: Request[R]) -> R:
        """Raises: RemoteError, Unavailable, ConnectionLost: as `protocol.client.Client.call`."""
        ...

    async def wconfd(self, request: Request[R]) -> R:
        """As `luxid`; only for what every caller may know, as wconfd knows no speakers."""
        ...

    async def feed(self, request: Subscribe) -> tuple[Client, bytes]:
        """Subscribe to luxid's feed; return a connection for it alone, which the caller closes, and the first reply.

        Raises, Cancellation: as `Client.subscribe`.
        """
        ...

    async def luxi(self, request: AnyRequest) -> bytes:
        """luxid's reply as it came, a result or an error. Raises: as `luxid`, but for RemoteError."""
        ...


@attrs.frozen
class MergePatch:
    """A body that is merged into what is there: what it leaves out stays as it is."""

    # instance of `Call.takes`
    wish: object
    # names of the members that are null: they get their default
    cleared: tuple[str, ...]


@attrs.frozen
class Asked:
    """A request whose caller may make it, with its body read and checked."""

    # path and query parameters, headers, the address of the client
    http: HttpRequest
    caller: Principal
    daemons: Daemons
    # an instance of `Call.takes`, or a `MergePatch` of one; any JSON value where that is `object`; None: there was none
    body: object = None

    def body_as(self, kind: type[T]) -> T:
        """The body, whose class the row names."""
        assert isinstance(self.body, kind)
        return self.body

    def patch_as(self, kind: type[T]) -> tuple[T, tuple[str, ...]]:
        """The body of a row that merges: what it sets, and the names of the members that are null."""
        assert isinstance(self.body, MergePatch)
        assert isinstance(self.body.wish, kind)
        return self.body.wish, self.body.cleared


@attrs.frozen
class Given:
    """The result of a handler that is more than a value with status 200."""

    value: object
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)


# returns a value that `common.wire.unstructure` understands, a `Given`, or a Starlette response
Handler = Callable[[Asked], Awaitable[object]]


@attrs.frozen
class CallParameter:
    """A parameter of the query string or a header, for the document; handlers read it themselves."""

    name: str
    description: str
    schema: Mapping[str, object] = attrs.field(factory=lambda: {"type": "string"})
    place: str = "query"
    is_required: bool = False


@attrs.frozen
class EventTypes:
    """The events of a stream of server-sent events."""

    # name of any of them in the document
    name: str
    # event -> class of its data
    data: Mapping[str, object]


@attrs.frozen
class Call:
    verb: str
    # as Starlette's routes: "/3/jobs/{id:int}"
    path: str
    handler: Handler
    # one sentence for the document
    summary: str
    face: Face = Face.OURS
    # any one of them is enough; empty: everybody may call, also without a name
    rights: tuple[Right, ...] = ()
    # options of the users file that the rule of Ganeti wants, any one of them; empty: everybody may call, also unnamed;
    # None: the rule knows no such call. Where the settings keep that rule, it counts instead of `rights`, and the call
    # is made with the role *admin*: Ganeti has no finer ones
    ganeti_rights: tuple[str, ...] | None = None
    # class of the body, `object` for any JSON; None: there is none
    takes: object = None
    is_body_required: bool = True
    # whether the body is a JSON Merge Patch (RFC 7396)
    merges: bool = False
    # class of the value with the status `status`; None: null
    gives: object = None
    status: int = 200
    # whether the value is one thing with a tag, which is the `ETag` of the reply
    is_tagged: bool = False
    # further statuses with such a value; 303 and 304 have none
    also: tuple[int, ...] = ()
    # media type of the result
    media_type: str = "application/json"
    # statuses of refusals, besides those that every call of this face may have
    errors: tuple[int, ...] = ()
    parameters: tuple[CallParameter, ...] = ()
    # name of the call in the document, as verb and noun: what clients that are made of the document call it, so it
    # stays as it is; empty: that of the handler, for our own resources, else the document does not tell of the call
    name: str = ""
    # heading in the document
    tag: str = ""
    # more for the document: paragraphs
    description: str = ""
    # what the result is a stream of; None: it is no stream of events
    events: EventTypes | None = None
    # whether the call only waits and reads: then it is cancelled when the client goes
    only_waits: bool = False
    # whether it is served also where this node is not the master
    is_everywhere: bool = False
    # whether only the bearer of a token may call: no user with a password, and nobody over the Unix socket
    is_for_tokens: bool = False
    # whether it changes something: then it is logged, and a page needs protection against forgery
    changes: bool = False
    # examples of bodies, by name
    examples: Mapping[str, object] = attrs.field(factory=dict)

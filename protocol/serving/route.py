"""A row of a daemon's table: a method, its request class, its handler, and the role that a caller needs."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, Union, cast

import attrs
import orjson

from common.access import Role
from protocol.messages import AnyRequest, structure_request
from protocol.peer import Peer
from protocol.serving.pieces import Pieces
from protocol.stream import Stream

Q = TypeVar("Q", bound=AnyRequest)
R = TypeVar("R")
Q_co = TypeVar("Q_co", bound=AnyRequest, covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)
# result of a handler: the reply, also as encoded JSON; a `Stream` takes over the connection, `Pieces` are
# made while they are sent
Reply = Union[R, Pieces[R], Stream[R], orjson.Fragment]  # noqa: UP007  # mypy wants it so for a type variable
Handler = Callable[[Q, Peer], Awaitable[Reply[R]]]


class RequestClass(Protocol[Q_co, R_contra]):
    """The class of a request, reduced to its input and output."""

    @property
    def METHOD(self) -> str: ...  # a constant of the classes

    def __call__(self, *args: Any, **kwargs: Any) -> Q_co: ...

    def write_reply(self, reply: R_contra) -> object: ...


class AnyRoute(Protocol):
    """A row of a daemon's table, for any method.

    A table is a list of these instead of `Route[Any, Any]`, which would accept any handler for any request.
    """

    @property
    def method(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def role(self) -> Role: ...

    @property
    def only_waits(self) -> bool: ...

    def read(self, params: Sequence[object] | Mapping[str, object]) -> AnyRequest:
        """Make the request from these arguments. Raises: InvalidRequest."""
        ...

    def carry_out(self, call: AnyRequest, peer: Peer) -> Awaitable[object]:
        """Call the handler with a request made by `read`."""
        ...

    def after(self, check: Callable[[AnyRequest], Awaitable[None]]) -> "AnyRoute":
        """The same route, but with `check` called first: its exception becomes the reply."""
        ...


@attrs.frozen
class Route(Generic[Q, R]):
    """One method: its request class, its handler, and the role that a caller needs.

    mypy refuses a handler that takes another request than the class, or returns another reply.
    """

    kind: RequestClass[Q, R]
    handler: Handler[Q, R]
    role: Role = attrs.field(kw_only=True)
    # whether the call changes nothing and may last long: then it is cancelled when its caller hangs up
    only_waits: bool = attrs.field(default=False, kw_only=True)

    @property
    def method(self) -> str:
        return self.kind.METHOD

    @property
    def title(self) -> str:
        """`SetDrainFlag (close or open the queue to new jobs)`: the method, and what its class says of it."""
        about = inspect.cleandoc(vars(self.kind).get("__doc__") or "").partition("\n")[0].partition(". ")[0]
        about = about.partition(";")[0].rstrip(".")
        return f"{self.method} ({about[:1].lower()}{about[1:]})" if about else self.method

    def read(self, params: Sequence[object] | Mapping[str, object]) -> AnyRequest:
        return structure_request(cast(type[AnyRequest], self.kind), params)

    def carry_out(self, call: AnyRequest, peer: Peer) -> Awaitable[object]:
        return self.handler(cast(Q, call), peer)

    def after(self, check: Callable[[AnyRequest], Awaitable[None]]) -> AnyRoute:
        async def handler(call: Q, peer: Peer) -> Reply[R]:
            await check(call)
            return await self.handler(call, peer)

        return attrs.evolve(self, handler=handler)

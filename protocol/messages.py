"""Requests as frozen classes: one class is a method's name, its arguments in order, and its reply.

    @attrs.frozen
    class CancelJob(Request[tuple[bool, str]]):
        METHOD = "CancelJob"
        job_id: JobId
        kill: bool = False

Ganeti's dialect sends arguments by position, JSON-RPC also by name; both become an instance
of the class here, and code beyond this module sees no dict. Fields with defaults may be left out.

Source: DESIGN section 4.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

import attrs

from common.errors import InvalidRequest
from common.wire import structure, unstructure

R = TypeVar("R")


class Request(Generic[R]):
    """Base of all requests; `R` is the type of the reply for the caller."""

    METHOD: ClassVar[str]

    @classmethod
    def write_reply(cls, reply: R) -> object:
        """Convert the reply to JSON-able values."""
        return unstructure(reply)


# a request of any method
AnyRequest = Request[Any]
Q = TypeVar("Q", bound=AnyRequest)


def structure_request(kind: type[Q], params: Sequence[object] | Mapping[str, object]) -> Q:
    """Read a method's arguments, given by position or by name.

    Raises: InvalidRequest: too many or too few, an unknown name, a wrong type.
    """
    shape = _shape(kind)
    if not isinstance(params, Mapping):
        names = shape.names
        if len(params) > len(names):
            raise InvalidRequest(
                f"{kind.METHOD} takes at most {len(names)} arguments ({', '.join(names)}), got {len(params)}"
            )
        params = dict(zip(names, params, strict=False))
    missing = [name for name in shape.required if name not in params]
    if missing:
        raise InvalidRequest(f"{kind.METHOD} lacks {', '.join(missing)}; its arguments are {', '.join(shape.names)}")
    return structure(params, kind, f"arguments of {kind.METHOD}")


def positional(request: AnyRequest) -> list[object]:
    """The arguments in wire form, in order.

    Optional arguments at the end that are null are left out: Ganeti's daemons check the number of arguments.
    """
    shape = _shape(type(request))
    values = [unstructure(getattr(request, name)) for name in shape.names]
    while len(values) > len(shape.required) and values[-1] is None:
        values.pop()
    return values


def structure_reply(kind: type[Request[R]], value: object) -> R:
    """Read a daemon's reply.

    Raises: InvalidRequest: the reply has another shape than the method's.
    """
    reply: R = structure(value, _shape(kind).reply, f"reply to {kind.METHOD}")
    return reply


@attrs.frozen
class _Shape:
    """The signature of a request class; computed once."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    reply: type


_shapes: dict[type[AnyRequest], _Shape] = {}


def _shape(kind: type[AnyRequest]) -> _Shape:
    shape = _shapes.get(kind)
    if shape is None:
        fields = attrs.fields(kind)  # type: ignore[arg-type]  # subclasses are attrs classes
        required = tuple(field.name for field in fields if field.default is attrs.NOTHING)
        shape = _shapes[kind] = _Shape(tuple(field.name for field in fields), required, _reply_type(kind))
    return shape


def _reply_type(kind: type[AnyRequest]) -> type:
    for base in getattr(kind, "__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, Request):
            reply: type = get_args(base)[0]
            return reply
    raise TypeError(f"{kind.__name__} does not name the type of its reply")

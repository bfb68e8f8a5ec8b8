"""A call of /3 as a value: what is sent, what comes back, and whether it may be sent twice.

Source: DESIGN section 15.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar
from urllib.parse import quote

import attrs

from common.wire import unstructure

T = TypeVar("T")


@attrs.frozen
class HttpCall(Generic[T]):
    verb: str
    # path with quoted names: "/3/jobs/14"
    path: str
    # class of the value that comes back; None: there is none
    gives: type[T]
    params: Mapping[str, str] = attrs.field(factory=dict)
    # body as JSON value; None: there is none
    body: object = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    # whether a second delivery does no harm and gets the same reply
    is_repeatable: bool = True
    # seconds that the server may take for waiting, beside its usual time
    waits_s: float = 0.0

    @property
    def is_harmless(self) -> bool:
        """Whether it does not matter if it was carried out: it reads, or sets what it would set again."""
        return self.is_repeatable and not self.headers


def get(path: str, gives: type[T], *, waits_s: float = 0.0, **params: object) -> HttpCall[T]:
    """A call that reads; parameters that are None or empty are left out."""
    return HttpCall("GET", path, gives, _params(params), waits_s=waits_s)


def post(path: str, gives: type[T], body: object = None, *, is_repeatable: bool = False) -> HttpCall[T]:
    """A call with a typed body. Args: is_repeatable: it only reads, or has a key."""
    return HttpCall("POST", path, gives, body=None if body is None else unstructure(body), is_repeatable=is_repeatable)


def segment(name: object) -> str:
    """A name as a part of a path."""
    return quote(str(name), safe="")


def _params(params: Mapping[str, object]) -> dict[str, str]:
    return {name: _text(value) for name, value in params.items() if value not in (None, "", (), False)}


def _text(value: object) -> str:
    if value is True:
        return "true"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)

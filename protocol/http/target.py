"""The target of a request, and the host that it is for.

    GET /3/jobs?limit=2                     origin form
    GET http://gantry.example/3/jobs        absolute form: its host counts, and the header `Host` does not
    OPTIONS *                               the server as a whole

`CONNECT host:port` is for proxies. Escapes in a path are looked at, not decoded; in paths and queries characters that
should be escaped are taken as they are, since many clients send them.

Source: RFC 9112, sections 3.2 and 3.3; RFC 9110, sections 4.2.4 and 7.2.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

import attrs

WHOLE_SERVER: Final = b"*"
_LAST_PORT: Final = 65535
_ABSOLUTE: Final = re.compile(rb"https?://([^/?]*)(/[^?]*)?(\?.*)?", re.IGNORECASE | re.DOTALL)
# a name, or an address; then a port, which may be left out after its colon
_AUTHORITY: Final = re.compile(
    rb"(?:\[([0-9A-Fa-f:.]+)\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::([0-9]{0,5}))?"
)
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9a-fA-F]{2})")


class BadTarget(Exception):
    """What is asked for, or for which host, is malformed."""


@attrs.frozen
class RequestTarget:
    """What is asked for."""

    # begins with a slash; `*` for the server as a whole
    path: bytes
    query: bytes
    # of the absolute form; None: the header `Host` says it
    host: bytes | None = None


def read_target(method: bytes, target: bytes) -> RequestTarget:
    """Raises: BadTarget: no form of a target that this method may have."""
    found = _split(method, target)
    if b"#" in target or _BAD_ESCAPE.search(found.path):
        raise BadTarget
    return found


def check_hosts(values: Iterable[bytes]) -> None:
    """Raises: BadTarget: one of the headers `Host` names no host; an empty one is for a server without a name."""
    for value in values:
        _check_authority(value)


def _split(method: bytes, target: bytes) -> RequestTarget:
    if target == WHOLE_SERVER:
        if method != b"OPTIONS":
            raise BadTarget
        return RequestTarget(WHOLE_SERVER, b"")
    if target.startswith(b"/"):
        path, _, query = target.partition(b"?")
        return RequestTarget(path, query)
    found = _ABSOLUTE.fullmatch(target)
    if found is None or not found[1]:
        raise BadTarget
    _check_authority(found[1])
    # a proxy that asks for the server as a whole writes no path
    bare = WHOLE_SERVER if method == b"OPTIONS" and not found[3] else b"/"
    return RequestTarget(found[2] or bare, (found[3] or b"?")[1:], found[1])


def _check_authority(text: bytes) -> None:
    found = _AUTHORITY.fullmatch(text)
    if found is None or int(found[2] or 0) > _LAST_PORT:
        raise BadTarget
    if found[1] is not None:
        try:
            ipaddress.IPv6Address(found[1].decode())
        except ValueError:
            raise BadTarget from None

"""Replies compressed by gzip, where their client takes that and it pays.

Theory. Only a reply that is whole is compressed, and only from `_LEAST` bytes on; a stream is to arrive as it comes.
The processor time is bounded: the fastest level, at most `_MOST` bytes, large bodies in a thread and no more than
`_AT_ONCE` of them at a time; a reply that finds no place does not wait for one, it is sent as it is. Over the Unix
socket nothing is gained. Pages are left out: they have secrets beside what a stranger may have written, and the length
of a compressed text would betray them.

Source: RFC 9110, sections 8.4 and 12.5.3; "BREACH" (2013).
"""

import gzip
from typing import Final

import trio
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse

from common.system.inthread import try_in_thread
from common.system.shortages import NoThread
from daemons.rapid.calls import Face

# bytes
_LEAST: Final = 4 * 1024
_LARGE: Final = 64 * 1024
_MOST: Final = 32 * 2**20
_AT_ONCE: Final = 2
_LEVEL: Final = 1
_ENCODING: Final = "Accept-Encoding"
_NAMES: Final = frozenset({"gzip", "x-gzip"})


class Compression:
    """Compresses replies; one for all requests."""

    def __init__(self) -> None:
        self._places = trio.CapacityLimiter(_AT_ONCE)

    async def apply(self, face: Face, http: HttpRequest, response: Response) -> None:
        """Compress the body of a reply, and say so in its headers, or leave it."""
        if face is Face.PAGE or http.client is None or not _is_compressible(response):
            return
        # a cache must not give one form to who asked for the other
        response.headers.add_vary_header(_ENCODING)
        if not takes_gzip(http.headers.get(_ENCODING, "")):
            return
        compressed = await self._compressed(bytes(response.body))
        if compressed is not None:
            _replace_body(response, compressed)

    async def _compressed(self, body: bytes) -> bytes | None:
        """None: there is no place for it now."""
        if len(body) < _LARGE:
            return _gzip(body)
        if self._places.available_tokens < 1:
            return None
        try:
            return await try_in_thread(_gzip, body, limiter=self._places)
        except NoThread:
            return None


def takes_gzip(header: str) -> bool:
    """Whether a client takes gzip. Args: header: its `Accept-Encoding`."""
    weights = dict(map(_weighted, header.lower().split(",")))
    named = [weights[name] for name in _NAMES if name in weights]
    return max(named) > 0 if named else weights.get("*", 0.0) > 0


def _weighted(part: str) -> tuple[str, float]:
    """A coding and its weight; 0: the client does not take it, or its weight cannot be read."""
    name, _, parameter = part.partition(";")
    key, _, value = parameter.partition("=")
    try:
        return name.strip(), float(value) if key.strip() == "q" else 1.0
    except ValueError:
        return name.strip(), 0.0


def _is_compressible(response: Response) -> bool:
    if isinstance(response, StreamingResponse) or not _LEAST <= len(response.body) <= _MOST:
        return False
    # a range is one of the bytes as they are
    return not {"content-encoding", "content-range"} & set(response.headers)


def _replace_body(response: Response, compressed: bytes) -> None:
    response.body = compressed
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(compressed))
    etag = response.headers.get("etag", "")
    if etag and not etag.startswith("W/"):
        # the same content, in other bytes
        response.headers["ETag"] = f"W/{etag}"


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, _LEVEL, mtime=0)

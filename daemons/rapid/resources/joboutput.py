"""The output of a job's commands: its bytes, or what comes, until the job ends.

Source: DESIGN section 15; RFC 9110, sections 14 and 15.3.7.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import attrs
from starlette.responses import Response

from common.ids import JobId
from daemons.rapid.calls import Asked, Daemons, Parameter
from daemons.rapid.events.streams import ByteStream
from daemons.rapid.refusals import Refused
from daemons.rapid.resources.parameters import (
    choice,
    choice_of,
    flag,
    flag_of,
    job_id_of,
    seconds,
    seconds_of,
    text_of,
    whole,
    whole_of,
)
from protocol.luxi.output import JobOutput, OutputStream, ReadJobOutput

# bytes of a range that are sent at once; a client asks for the rest
RANGE_MOST: Final = 4 * 2**20
# seconds that one call waits for more
_WAIT_S: Final = 60.0

STREAM: Final = choice(
    "stream", "`error`: standard error, if the command kept it apart", [each.value for each in OutputStream], "output"
)
FOLLOW: Final = flag("follow", "whether to go on with what comes, until the job ends")
OFFSET: Final = whole("offset", "byte at which to begin", default=0)
TIMEOUT: Final = seconds("timeout", "seconds to wait for output, if there is none", default=0, high=80)
TRY: Final = whole("try", "number of a try, from 1, of which alone the output is wanted", low=1)
RANGE: Final = Parameter(
    "Range", f"`bytes=0-99`, `bytes=100-` or `bytes=-100`; at most {RANGE_MOST} bytes come", place="header"
)

_RANGE: Final = re.compile(r"bytes=(?:(\d{1,18})-(\d{1,18})?|-(\d{1,18}))")


@attrs.frozen
class _Reader:
    """One stream of a job's output, by bytes."""

    daemons: Daemons
    job_id: JobId
    stream: OutputStream
    # None: all tries
    of_try: int | None

    async def piece(self, offset: int, timeout_s: float) -> JobOutput:
        call = ReadJobOutput(self.job_id, offset, timeout_s, self.stream, as_bytes=True, of_try=self.of_try)
        return await self.daemons.luxid(call)

    async def bytes_from(self, offset: int, *, follows: bool) -> AsyncGenerator[tuple[int, bytes], None]:
        """Pairs of offset and bytes, as far as there are any now, or until the job ends."""
        while True:
            piece = await self.piece(offset, _WAIT_S if follows else 0.0)
            content = piece.text.encode("latin-1")
            if content:
                yield piece.next_offset - len(content), content
            if piece.is_end or not (content or follows):
                return
            offset = piece.next_offset


class JobOutputs:
    """The calls that read output."""

    async def read_piece(self, asked: Asked) -> JobOutput:
        """As LUXI has it: a text, and where the next one begins."""
        job_id, stream = job_id_of(asked), OutputStream(choice_of(asked, STREAM))
        offset, timeout_s = whole_of(asked, OFFSET) or 0, seconds_of(asked, TIMEOUT)
        return await asked.daemons.luxid(ReadJobOutput(job_id, offset, timeout_s, stream, of_try=whole_of(asked, TRY)))

    async def read_output(self, asked: Asked) -> Response:
        """Raises: JobLost, Denied; Refused: the range lies beyond the end, or cannot be read."""
        stream, of_try = OutputStream(choice_of(asked, STREAM)), whole_of(asked, TRY)
        reader = _Reader(asked.daemons, job_id_of(asked), stream, of_try)
        offset, wanted = whole_of(asked, OFFSET) or 0, _wanted(text_of(asked, RANGE))
        follows = flag_of(asked, FOLLOW)
        # ranges are of the whole output
        if wanted is not None and not follows and not offset and of_try is None:
            return await _part(reader, wanted)
        # the first piece is read here: what is wrong with the job is an error with its own status
        first = await reader.piece(offset, 0.0)
        return ByteStream(_all(reader, first, follows=follows), _TEXT)


_TEXT: Final = {
    "content-type": "text/plain; charset=utf-8",
    "accept-ranges": "bytes",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}


async def _all(reader: _Reader, first: JobOutput, *, follows: bool) -> AsyncGenerator[bytes, None]:
    yield first.text.encode("latin-1")
    if first.is_end:
        return
    async with aclosing(reader.bytes_from(first.next_offset, follows=follows)) as pieces:
        async for _, content in pieces:
            yield content


@attrs.frozen
class _Wanted:
    """A range: from one byte to another, or the last ones."""

    first: int = 0
    # last byte of the range; None: open
    last: int | None = None
    # number of bytes at the end; None: `first` counts
    suffix: int | None = None


def _wanted(text: str | None) -> _Wanted | None:
    """None: everything. A form that is unknown is ignored, as RFC 9110 demands."""
    found = _RANGE.fullmatch(text.replace(" ", "")) if text else None
    if found is None:
        return None
    if found[3] is not None:
        return _Wanted(suffix=int(found[3]))
    first, last = int(found[1]), int(found[2]) if found[2] is not None else None
    return None if last is not None and last < first else _Wanted(first, last)


async def _part(reader: _Reader, wanted: _Wanted) -> Response:
    """The wanted bytes, as far as they exist and are not too many."""
    if wanted.suffix is not None:
        start, content, end = await _last(reader, min(wanted.suffix, RANGE_MOST))
    else:
        most = RANGE_MOST if wanted.last is None else min(RANGE_MOST, wanted.last - wanted.first + 1)
        start, content, end = await _from(reader, wanted.first, most)
        if wanted.last is not None and start + len(content) > wanted.last + 1:
            # what was wanted is gone, at least its beginning
            content, end = content[: max(wanted.last + 1 - start, 0)], None
            if not content:
                raise Refused(416, f"the bytes before {start} of the output are not kept any more", code="invalid")
    if not content:
        raise Refused(416, f"the output has no bytes from {start} on", code="invalid")
    headers = {**_TEXT, "content-range": f"bytes {start}-{start + len(content) - 1}/{end if end is not None else '*'}"}
    return Response(content, 206, headers)


async def _from(reader: _Reader, first: int, most: int) -> tuple[int, bytes, int | None]:
    """Where the bytes begin (older output may be gone), the bytes, and the size of all if it was reached."""
    start, content = first, b""
    async with aclosing(reader.bytes_from(first, follows=False)) as pieces:
        async for at, piece in pieces:
            if not content:
                start = at
            content += piece
            if len(content) > most:
                return start, content[:most], None
    return start, content, start + len(content)


async def _last(reader: _Reader, count: int) -> tuple[int, bytes, int | None]:
    end, content = 0, b""
    async with aclosing(reader.bytes_from(0, follows=False)) as pieces:
        async for at, piece in pieces:
            end = at + len(piece)
            content = (content + piece)[-count:] if count else b""
    return end - len(content), content, end

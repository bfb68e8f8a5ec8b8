"""The output of a job's commands: a part of it, or its end."""

from math import inf
from typing import Final

import attrs
import trio

from common.ids import JobId
from daemons.rapid.calls import Daemons
from protocol.luxi.output import JobOutput, ReadJobOutput

# bytes of output on a page at first; a page that follows gets more as it comes
SHOWN_BYTES: Final = 65536


@attrs.frozen
class Output:
    content: bytes
    # offset of its first byte
    start: int
    # whether no more will come
    is_end: bool

    @property
    def end(self) -> int:
        return self.start + len(self.content)

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


async def read_piece(
    daemons: Daemons, job_id: int, offset: int, timeout_s: float = 0.0, of_try: int | None = None
) -> Output:
    """What follows this byte, as far as it is there, or comes within the time.

    Args: of_try: number of the only try of which it is wanted; None: all.
    Raises: Denied: it is not for him. NotFound: there was no such try.
    """
    call = ReadJobOutput(JobId(job_id), offset, timeout_s, as_bytes=True, of_try=of_try)
    piece: JobOutput = await daemons.luxid(call)
    content = piece.text.encode("latin-1")
    # older output may be gone
    return Output(content, piece.next_offset - len(content), piece.is_end)


async def output_from(daemons: Daemons, job_id: int, offset: int, of_try: int | None = None) -> Output:
    """The output from a byte on, as much as there is now and a page shows. Args, Raises: as `read_piece`."""
    found = await read_piece(daemons, job_id, offset, of_try=of_try)
    while found.content and not found.is_end and len(found.content) < SHOWN_BYTES:
        more = await read_piece(daemons, job_id, found.end, of_try=of_try)
        found = _joined(found, more)
        if not more.content:
            break
    if len(found.content) > SHOWN_BYTES:
        return Output(found.content[:SHOWN_BYTES], found.start, is_end=False)
    return found


async def output_end(daemons: Daemons, job_id: int, longest_s: float = inf) -> Output:
    """The last part of the output. Cost: all of it is read.

    Args: longest_s: time after which that counts as the end which was reached: a job may print faster than it is read.
    """
    found, ends_at = await read_piece(daemons, job_id, 0), trio.current_time() + longest_s
    while not found.is_end and trio.current_time() < ends_at:
        more = await read_piece(daemons, job_id, found.end)
        found = _joined(found, more)
        if not more.content:
            break
    kept = found.content[-SHOWN_BYTES:]
    return Output(kept, found.end - len(kept), found.is_end)


def _joined(first: Output, more: Output) -> Output:
    if more.start != first.end:
        # what was between was rotated away
        return more if more.content else attrs.evolve(first, is_end=more.is_end)
    # only the last part is ever shown
    content = (first.content + more.content)[-2 * SHOWN_BYTES :]
    return Output(content, more.end - len(content), more.is_end)

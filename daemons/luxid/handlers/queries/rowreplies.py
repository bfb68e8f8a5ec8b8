"""Replies of rows, as JSON in pieces: rows are many, and are never all in memory.

Source: luxid.md 2.2, 7.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

import trio

from common.asciijson import ascii_json
from daemons.luxid.core.query.engine import Plan
from protocol.luxi.queries import QueryResult, Rows
from protocol.messages import reply_to_wire
from protocol.serving.pieces import Pieces

T = TypeVar("T")

# number of rows made and encoded before other tasks run
_BATCH: Final = 200
# size from which the next pieces are made of fewer rows
_PIECE_BYTES: Final = 256 * 2**10


async def one_piece(things: Sequence[T]) -> AsyncGenerator[Sequence[T], None]:
    """Things that already exist, for the replies below."""
    yield things


def query_reply(
    plan: Plan[T], pieces: AsyncGenerator[Sequence[T], None], notes: Sequence[str] = (), *, most: int | None = None
) -> Pieces[QueryResult]:
    """Definitions and rows of cells; at the end these notes, and the plan's on the filter.

    Args: most: maximum number of rows, >= 1; None: no limit.
    """
    head = b'{"fields":%b,"data":[' % ascii_json(reply_to_wire(plan.definitions()))
    return Pieces(_framed(head, _encode(plan.rows, pieces, most), b"]}"), lambda: [*notes, *plan.notes()])


def classic_reply(plan: Plan[T], pieces: AsyncGenerator[Sequence[T], None]) -> Pieces[Rows]:
    """Rows of bare values."""
    return Pieces(_framed(b"[", _encode(plan.classic_rows, pieces), b"]"))


async def _encode(
    make: Callable[[Sequence[T]], Sequence[object]],
    pieces: AsyncGenerator[Sequence[T], None],
    most: int | None = None,
) -> AsyncGenerator[bytes, None]:
    """The rows of things as JSON, in pieces, without the brackets around the whole."""
    batch, separator = _BATCH, b""
    left = most
    async with aclosing(pieces):
        async for piece in pieces:
            start = 0
            while start < len(piece):
                rows = make(piece[start : start + batch])
                start += batch
                if left is not None:
                    rows = rows[:left]
                    left -= len(rows)
                if rows:
                    encoded = ascii_json(rows)[1:-1]
                    batch = _next_batch(batch, len(encoded))
                    yield separator + encoded
                    separator = b","
                if left == 0:
                    return
                await trio.lowlevel.checkpoint()


def _next_batch(batch: int, size: int) -> int:
    """Reduce the number of rows when they are large, and raise it again when they are small."""
    return max(1, batch // 4) if size > _PIECE_BYTES else min(_BATCH, batch * 2)


async def _framed(head: bytes, inner: AsyncGenerator[bytes, None], tail: bytes) -> AsyncGenerator[bytes, None]:
    yield head
    async with aclosing(inner):
        async for piece in inner:
            yield piece
    yield tail

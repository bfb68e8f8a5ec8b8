"""A reply that is made while it is sent, piece by piece, so that a large one is never in memory as a whole.

A handler returns it in place of a value. A reply that fits into AT_ONCE_BYTES is sent like any other. For a larger
one each piece is made when the peer has taken the piece before. A failure within the first AT_ONCE_BYTES becomes an
ordinary error; a later one can only end the connection in the middle of the reply.

Source: DESIGN section 4.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Final, Generic, TypeVar

import attrs

AT_ONCE_BYTES: Final = 256 * 2**10


def _no_notes() -> list[str]:
    return []


R = TypeVar("R")


@attrs.frozen
class Pieces(Generic[R]):
    """A reply `R` as JSON text in ASCII, whole when all pieces are joined."""

    pieces: AsyncGenerator[bytes, None]
    # function that returns notes for the caller; called when the last piece has been made
    notes: Callable[[], list[str]] = _no_notes


async def take(pieces: AsyncGenerator[bytes, None], limit: int) -> tuple[bytes, bool]:
    """Join pieces until they exceed `limit` bytes; return them, and whether they are all."""
    taken: list[bytes] = []
    size = 0
    async for piece in pieces:
        taken.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(taken), False
    return b"".join(taken), True

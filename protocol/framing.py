"""Messages on a byte stream: each is followed by one byte 0x03, which JSON text cannot contain.

Sans-IO: bytes in, whole messages out.

Source: DESIGN section 4; luxid.md 1.2; wconfd.md 1.2.
"""

from typing import Final

from common.errors import InvalidRequest

ETX: Final = b"\x03"
# limit of one message in bytes, without its terminator
MAX_MESSAGE: Final = 64 * 2**20
# limit of a reply for a client: a list of all jobs may be larger than any request
MAX_REPLY: Final = 2**30


class MessageTooLarge(InvalidRequest):
    """the message is larger than the limit; send it in parts"""


class Framer:
    """Cut a byte stream into messages.

    Cost: linear in the bytes fed, however they are cut; memory is at most the limit
    plus the size of one `feed`.
    """

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        # start of an unfinished message; invariant: contains no ETX, and at most `limit` bytes
        self._rest = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of the unfinished message."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream; return the completed messages, in order.

        Raises:
            MessageTooLarge: a message exceeds the limit; the buffer is dropped, and the
                stream cannot be read any further.
        """
        *whole, rest = data.split(ETX)
        if whole:
            if self._rest:
                self._check(len(self._rest) + len(whole[0]))
                self._rest += whole[0]
                whole[0] = bytes(self._rest)
                self._rest = bytearray()
            self._check(max(map(len, whole)))
        self._check(len(self._rest) + len(rest))
        self._rest += rest
        return whole

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._rest = bytearray()
            raise MessageTooLarge(
                f"a message of more than {self._limit} bytes; send it in parts", limit_bytes=self._limit
            )


def pack(payload: bytes) -> bytes:
    """The bytes of one message on the stream; `payload` is JSON text, so it contains no ETX."""
    return payload + ETX

"""The contents of files on the wire: `[encoding, text]`.

Theory. Encoding 0 is the content as a JSON string; 1 is base64 of a zlib stream. Ganeti's Haskell daemons take a string
for Latin-1 when they pack it, its Python daemon writes an unpacked string as UTF-8: both agree only on ASCII. So
content that is not ASCII is always packed here, which carries bytes, whatever its size; and a string that arrives is
written as UTF-8, as Ganeti's node daemon does.

Source: noded.md section 7.
"""

import base64
import binascii
import zlib
from typing import Final, Self

import attrs

from common.errors import InvalidRequest
from common.shapehooks import expected
from common.shapes import OwnForm

# content is packed from this size, in bytes; receivers take both encodings for any size
PACKED_FROM: Final = 4096
# Ganeti's level: the packed bytes are the same
LEVEL: Final = 3
# limit of content in bytes: a packed request of 10 MiB could unpack to 10 GiB
MAX_CONTENT: Final = 64 * 2**20
PLAIN: Final = 0
PACKED: Final = 1


@attrs.frozen
class Content(OwnForm):
    """The content of a file."""

    data: bytes

    def to_wire(self) -> object:
        if len(self.data) < PACKED_FROM and self.data.isascii():
            return [PLAIN, self.data.decode("ascii")]
        return [PACKED, base64.b64encode(zlib.compress(self.data, LEVEL)).decode("ascii")]

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Raises: InvalidRequest: another form, not base64, not a zlib stream, or beyond `MAX_CONTENT`."""
        match value:
            # a boolean equals 0 or 1
            case [int(encoding), str(text)] if encoding == PLAIN and encoding is not False:
                return cls(_plain(text))
            case [int(encoding), str(text)] if encoding == PACKED and encoding is not True:
                return cls(_unpacked(text))
            case _:
                raise expected("[0, text] or [1, base64 of a zlib stream]", value)


def _plain(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the content is not text: lone surrogate at character {error.start}") from None
    if len(data) > MAX_CONTENT:
        raise _too_large()
    return data


def _unpacked(text: str) -> bytes:
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"the packed content is not base64: {error}") from None
    unpacker = zlib.decompressobj()
    try:
        # one byte more than allowed, so that the limit itself passes
        data = unpacker.decompress(packed, MAX_CONTENT + 1)
    except zlib.error as error:
        raise InvalidRequest(f"the packed content is not a zlib stream: {error}") from None
    if len(data) > MAX_CONTENT:
        raise _too_large()
    if not unpacker.eof or unpacker.unused_data:
        fault = "has bytes after its end" if unpacker.eof else "breaks off"
        raise InvalidRequest(f"the packed content is not a zlib stream: it {fault}")
    return data


def _too_large() -> InvalidRequest:
    return InvalidRequest(f"the content has more than {MAX_CONTENT} bytes, the limit; send less", limit=MAX_CONTENT)

"""JSON as text: how ours is written, and how that of others is read within bounds."""

import json
from json.encoder import encode_basestring_ascii
from typing import Final

import orjson

from common.errors import InvalidRequest

# Compact JSON in pure ASCII, which all of Ganeti's clients read correctly, on the wire and on disk.
#
# Source: wconfd.md 1.4 and 11 (BUG-1).


def ascii_json(value: object) -> bytes:
    """Encode without spaces; other characters become `\\u` escapes.

    Args:
        value: JSON-able; may contain `orjson.Fragment`s, which are spliced in.
    Raises: TypeError, ValueError, RecursionError: `value` is not JSON-able.
    Cost: that of the fast encoder; text that is not ASCII takes a second pass.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:
        # only the slow encoder takes numbers beyond 64 bits, nesting deeper than 254, non-string keys, lone surrogates
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    if text.isascii():
        return text
    return _escaped(text.decode()).encode("ascii")


def _escaped(text: str) -> str:
    """Escape the characters that are not ASCII; JSON has them only inside strings.

    Cost: a few passes of C code, because such a text may have as many runs of these characters as it has letters.
    """
    # encode the text as the content of one string, then undo the escapes of ASCII characters; pairs of
    # backslashes come first, with NUL in their place meanwhile: JSON never contains NUL
    quoted = encode_basestring_ascii(text)[1:-1].replace("\\\\", "\0")
    return quoted.replace('\\"', '"').replace("\\u007f", "\x7f").replace("\0", "\\")


# JSON of others, nested so deeply at most that it can be checked, kept and told again.
#
# Theory. The fast parser reads 1,024 levels, but its encoder writes 254, and code that follows a value down needs a few
# calls for each level: what is nested deeper would be read, and then fail somewhere. So it is refused where it is read.
# A text with few opening brackets cannot be deep, which costs two searches. For others the parser itself counts: it
# gets the text within so many lists more that the limit of both together is its own.


MOST_LEVELS: Final = 128
# levels that the parser reads
_PARSERS_LEVELS: Final = 1024
_MORE: Final = _PARSERS_LEVELS - MOST_LEVELS
_OPENING: Final = b"[" * _MORE
_CLOSING: Final = b"]" * _MORE


class TooDeep(InvalidRequest):
    """the JSON is nested too deeply"""

    def __init__(self) -> None:
        super().__init__(f"the JSON is nested deeper than {MOST_LEVELS} levels, which is the limit")


def read_json(text: bytes | str) -> object:
    """Read JSON that is nested at most `MOST_LEVELS` deep; a scalar has none.

    Raises: TooDeep. orjson.JSONDecodeError: it is no JSON.
    Cost: that of the parser; a text with many brackets is copied.
    """
    content = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if content.count(b"[") + content.count(b"{") <= MOST_LEVELS:
        return orjson.loads(content)
    try:
        value = orjson.loads(b"".join((_OPENING, content, _CLOSING)))
        for _ in range(_MORE):
            (value,) = value
    except ValueError:
        # deeper, or no JSON by itself, such as `1],[2`
        return _refused(content)
    return value


def _refused(content: bytes) -> object:
    """Raises: TooDeep, orjson.JSONDecodeError."""
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if not error.msg.startswith("depth limit exceeded"):
            raise
    raise TooDeep

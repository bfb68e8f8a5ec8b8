"""JSON of others, nested so deeply at most that it can be checked, kept and told again.

Theory. The fast parser reads 1,024 levels, but its encoder writes 254, and code that follows a value down needs a few
calls for each level: what is nested deeper would be read, and then fail somewhere. So it is refused where it is read.
A text with few opening brackets cannot be deep, which costs two searches. For others the parser itself counts: it gets
the text within so many lists more that the limit of both together is its own.
"""

from typing import Final

import orjson

from common.errors import InvalidRequest

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

"""Compact JSON in pure ASCII: what every client of Ganeti's reads right, on the wire and on disk.

Source: wconfd.md 1.4 and 11 (BUG-1).
"""

import json
from json.encoder import encode_basestring_ascii

import orjson


def ascii_json(value: object) -> bytes:
    """Encode without spaces; other characters become `\\u` escapes.

    Args:
        value: JSON-able; it may hold `orjson.Fragment`s, which are spliced in.
    Raises: TypeError, ValueError, RecursionError: `value` is not JSON-able.
    Cost: the fast encoder; only text that is not ASCII is looked at once more.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:
        # beyond 64 bits, nested deeper than 254, keys that are no strings, lone surrogates: the slow encoder can
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    if text.isascii():
        return text
    return _escaped(text.decode()).encode("ascii")


def _escaped(text: str) -> str:
    """JSON with escapes in place of what is not ASCII; outside of strings it has none of that.

    Cost: a few passes of C, as there may be as many runs of such characters as there are letters.
    """
    # as though all of it were the content of a string; then what that did to ASCII is taken back, pairs of
    # backslashes first, for which NUL stands meanwhile: no JSON has it
    quoted = encode_basestring_ascii(text)[1:-1].replace("\\\\", "\0")
    return quoted.replace('\\"', '"').replace("\\u007f", "\x7f").replace("\0", "\\")

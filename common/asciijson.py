"""Compact JSON in pure ASCII, which all of Ganeti's clients read correctly, on the wire and on disk.

Source: wconfd.md 1.4 and 11 (BUG-1).
"""

import json
from json.encoder import encode_basestring_ascii

import orjson


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

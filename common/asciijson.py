"""Compact JSON in pure ASCII: what every client of Ganeti's reads right, on the wire and on disk.

Source: wconfd.md 1.4 and 11 (BUG-1).
"""

import json
import re
from typing import Any, Final

import orjson

_NON_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


def ascii_json(value: Any) -> bytes:
    """Encode without spaces; other characters become `\\u` escapes.

    Args:
        value: JSON-able; it may hold `orjson.Fragment`s, which are spliced in.
    Raises: TypeError, ValueError, RecursionError: `value` is not JSON-able.
    Cost: the fast encoder; only text that is not ASCII is looked at once more, and only those
        runs of it are made anew.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:
        # beyond 64 bits, nested deeper than 254, keys that are no strings, lone surrogates: the slow encoder can
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    if text.isascii():
        return text
    # outside of strings JSON is ASCII, so escaping needs no parser
    return _NON_ASCII.sub(lambda run: json.dumps(run[0])[1:-1], text.decode()).encode("ascii")

"""Compact JSON in pure ASCII: what every client of Ganeti's reads right.

Source: wconfd.md 1.4 and 11 (BUG-1).
"""

import json
from typing import Any

import orjson


def ascii_json(value: Any) -> bytes:
    """Encode without spaces; other characters become `\\u` escapes.

    Raises: TypeError, ValueError: `value` is not JSON-able.
    Cost: the fast encoder, unless it meets such a character or a number of more than 64 bits.
    """
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:
        return _slowly(value)
    return text if text.isascii() else _slowly(value)


def _slowly(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")

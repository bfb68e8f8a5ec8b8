"""Compact JSON in pure ASCII, for the rows of the state files."""

import json
from typing import Any

import orjson


def ascii_json(value: Any) -> bytes:
    """Encode without spaces; other characters become `\\u` escapes, which every reader accepts.

    Cost: the fast encoder, unless it meets such a character or a number of more than 64 bits.
    Source: wconfd.md 1.4 and 11 (BUG-1).
    """
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:
        return _slowly(value)
    return text if text.isascii() else _slowly(value)


def _slowly(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")

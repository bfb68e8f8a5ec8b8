"""Requests as a client sends them, and the opcodes that they mean."""

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from daemons.rapid.ganeti.core.reads import Arguments
from daemons.rapid.ganeti.core.writes import WRITES, Asking, Write

NOW_NS = 1_700_000_000_000_000_000


def find(verb: str, uri: str, body: Any = None) -> tuple[Write, Asking]:
    """The row of a request, and what the request says."""
    parts = urlsplit(uri)
    for write in WRITES:
        match = re.fullmatch(re.sub(r"\{(\w+):\w+\}", r"(?P<\1>[^/]+)", write.path), parts.path)
        if match and write.verb == verb:
            arguments = Arguments.of(parse_qsl(parts.query, keep_blank_values=True))
            return write, Asking(match.groupdict(), arguments, body, NOW_NS)
    raise AssertionError(f"there is no {verb} {uri}")


def opcodes(verb: str, uri: str, body: Any = None) -> list[dict[str, Any]]:
    """The opcodes of a request, without their trails."""
    write, asking = find(verb, uri, body)
    return [{key: value for key, value in op.items() if key != "reason"} for op in write.opcodes(asking)]

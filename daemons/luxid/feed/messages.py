"""Messages of luxid's feed as bytes, put together from parts that are encoded once for all.

Source: protocol.luxi.feed.
"""

from collections.abc import Iterable, Mapping

from protocol.framing import pack
from protocol.luxi.feed import CHANGES


def changes_message(position: str, parts: Mapping[str, bytes]) -> bytes:
    """A notification with these parts of `FeedChanges`, each of them encoded, packed."""
    body = b'{"jsonrpc":"2.0","method":"%b","params":["%b",%b]}'
    return pack(body % (CHANGES.encode(), position.encode(), _object(parts)))


def begin_message(position: str, parts: Mapping[str, bytes], *, is_resumed: bool) -> bytes:
    """A `FeedBegin`, as JSON."""
    head = {"position": b'"%b"' % position.encode(), "is_resumed": b"true" if is_resumed else b"false"}
    return _object({**head, **parts})


def rows(encoded: Iterable[bytes]) -> bytes:
    """The list of rows that are encoded."""
    return b"[%b]" % b",".join(encoded)


def _object(parts: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), part) for name, part in parts.items())

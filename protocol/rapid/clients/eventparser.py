"""Server-sent events from bytes, without I/O.

Source: WHATWG HTML, "Server-sent events", 9.2.5 and 9.2.6.
"""

from collections.abc import Iterator
from typing import Final

import attrs

from common.errors import ProtocolError
from protocol.rapid.clients.retries import Failure

# bytes of one event; one of ours is far smaller
MAX_EVENT: Final = 64 * 2**20


@attrs.frozen
class Event:
    """An event: its name, its data as text, and the id with which a later stream goes on after it."""

    name: str
    data: str
    # "": none was sent so far
    id: str


@attrs.define
class EventParser:
    """Turns the bytes of a stream into events.

    Args: last_id: id of the last event of an earlier stream.
    """

    last_id: str = ""
    # seconds after which the server wants to be asked again when the stream breaks; None: it did not say
    retry_s: float | None = None
    # pieces after the last line; joined only when the line is complete, as it may come in thousands of them
    _rest: list[bytes] = attrs.field(factory=list)
    # whether the last byte was a carriage return, whose line feed may come in the next piece
    _after_return: bool = False
    _is_begun: bool = False
    _name: str = ""
    _data: list[str] = attrs.field(factory=list)
    _size: int = 0

    def feed(self, content: bytes) -> Iterator[Event]:
        """The events that are complete now. Raises: ProtocolError: an event is too large."""
        for line in self._lines(content):
            event = self._take(line)
            if event is not None:
                yield event

    def failure(self) -> Failure:
        """What it means that the stream ended."""
        return Failure(may_have_arrived=True, retry_after_s=self.retry_s)

    def _lines(self, content: bytes) -> list[str]:
        if self._after_return and content:
            content = content.removeprefix(b"\n")
            self._after_return = False
        if content.endswith(b"\r"):
            self._after_return = True
        self._size += len(content)
        if self._size > MAX_EVENT:
            raise ProtocolError(f"an event has more than {MAX_EVENT // 2**20} MiB")
        self._rest.append(content)
        if b"\n" not in content and b"\r" not in content:
            return []
        lines = b"".join(self._rest).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = [lines.pop()]
        texts = [line.decode(errors="replace") for line in lines]
        if texts and not self._is_begun:
            self._is_begun = True
            texts[0] = texts[0].removeprefix("\ufeff")
        return texts

    def _take(self, line: str) -> Event | None:
        if not line:
            return self._end()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self.last_id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_s = int(value) / 1000
            case _:
                # a comment, or a field of a newer server
                pass
        return None

    def _end(self) -> Event | None:
        name, data = self._name or "message", self._data
        self._name, self._data, self._size = "", [], sum(map(len, self._rest))
        return Event(name, "\n".join(data), self.last_id) if data else None

"""The calls and connections of a server, counted.

Source: DESIGN section 15.
"""

from collections.abc import Mapping

import attrs

from common.shapes import Lenient


@attrs.frozen
class CallCounts(Lenient):
    """The counts of a server since its start."""

    calls: int = 0
    # number of failed calls by the code of the error (`common.errors`)
    refused: Mapping[str, int] = attrs.field(factory=dict)
    # number of open connections
    connections: int = 0
    connections_refused: int = 0


class CallTally:
    """Counts of a server while it serves."""

    __slots__ = ("_refused", "calls", "connections", "connections_refused")

    def __init__(self) -> None:
        self.calls = 0
        self.connections = 0
        self.connections_refused = 0
        self._refused: dict[str, int] = {}

    def refuse(self, code: str) -> None:
        """Count a call that failed with this error code."""
        self._refused[code] = self._refused.get(code, 0) + 1

    def read(self) -> CallCounts:
        return CallCounts(self.calls, dict(self._refused), self.connections, self.connections_refused)

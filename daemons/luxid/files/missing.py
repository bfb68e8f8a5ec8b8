"""Tells in the log that other nodes lack changes: when it begins, now and then while it lasts, and when it is over.

Theory. While a candidate is away every change is one that it lacks; a line for each would drown the log. The seed's
rule is an error when more than half of the nodes lack a change; fewer are a warning.

Source: noded.md 8; DESIGN section 12.
"""

from typing import Final

import trio

from common.replication import NotCopied
from common.system.log import get_log

# seconds between two lines while it lasts
AGAIN_S: Final = 60.0
_EFFECT: Final = "the changes count; they are sent again until all nodes have them"
_log: Final = get_log(__name__)


class MissingCopies:
    """Call one of its methods after each change."""

    def __init__(self) -> None:
        # changes that were missing since the last line, and when that was, by trio's clock
        self._count = 0
        self._told_at: float | None = None
        self._was_most = False

    def lacking(self, error: NotCopied) -> None:
        """Other nodes lack a change."""
        self._count += 1
        now, is_worse = trio.current_time(), error.is_most and not self._was_most
        if self._told_at is not None and now < self._told_at + AGAIN_S and not is_worse:
            return
        tell = _log.error if error.is_most else _log.warning
        tell("copies.missing", reason=error, changes=self._count, effect=_EFFECT)
        self._count, self._told_at, self._was_most = 0, now, error.is_most

    def complete(self) -> None:
        """All nodes have a change that was waited for."""
        if self._told_at is not None:
            _log.info("copies.no_longer_missing", changes=self._count)
            self._count, self._told_at, self._was_most = 0, None, False

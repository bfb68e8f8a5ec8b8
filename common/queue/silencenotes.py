"""Which node a job process waits for, noted beside luxid's messages while it does, so that `why` can tell.

Nothing rests on a note: it is not synced, and one that cannot be written or read is only missed. It names the livelock
of its process; one that a killed process has left is not believed.

Source: DESIGN section 6, "Explain".
"""

import os
from pathlib import Path

import attrs
import orjson

from common.errors import GantryError
from common.queue.explanation import SilentNode
from common.system.log import get_log
from common.wire import structure

_log = get_log(__name__)


@attrs.frozen
class _Noted:
    livelock: str
    node: str
    since: float
    until: float | None
    may_run: bool
    why: str


class SilenceNote:
    """The note of one process. Args: livelock: its own."""

    def __init__(self, path: Path, livelock: str) -> None:
        self._path = path
        self._livelock = livelock

    def put(self, silent: SilentNode | None) -> None:
        """Write the note; None: remove it. Never raises."""
        try:
            if silent is None:
                self._path.unlink(missing_ok=True)
                return
            noted = _Noted(self._livelock, silent.node, silent.since, silent.until, silent.may_run, silent.why)
            temp = self._path.with_name(f"{self._path.name}.tmp")
            temp.write_bytes(orjson.dumps(attrs.asdict(noted)))
            os.replace(temp, self._path)
        except OSError as error:
            _log.warning("silence.not_noted", file=self._path, error=error, effect="'gnt-job why' does not tell of it")

    def read(self) -> SilentNode | None:
        """What the process has noted; None: nothing. Raises: OSError."""
        try:
            noted = structure(orjson.loads(self._path.read_bytes()), _Noted, self._path.name)
        except (FileNotFoundError, orjson.JSONDecodeError, GantryError):
            return None
        if noted.livelock != self._livelock:
            return None
        return SilentNode(noted.node, noted.since, noted.until, noted.may_run, noted.why)

"""What confd knows: the key and the configuration, read again when their files change.

Theory. Both files are replaced by renames, so the events of their folder tell each change. A check every some seconds
is the backstop. A snapshot is made whole, beside the old one, and takes its place in one step. A file that cannot be
read takes the place of what was read before: no answer is better than an old one.

Source: confd.md 5.
"""

import os
import time
from pathlib import Path
from typing import Final

import attrs
import orjson
import trio

from common.errors import GantryError, explain_os_error
from common.objects.codec import decode_config
from common.paths import Paths
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.watch import EventKind, FolderWatch
from daemons.confd.core.catalogue import Catalogue
from daemons.confd.core.verdict import Snapshot

# seconds between two checks of the files
CHECK_S: Final = 17.0
_KINDS: Final = EventKind.CLOSE_WRITE | EventKind.MOVED_TO | EventKind.MOVED_FROM | EventKind.DELETE
_log: Final = get_log(__name__)


@attrs.frozen
class _Mark:
    """A state of a file."""

    inode: int
    modified_ns: int
    size: int


class Knowledge:
    """The current snapshot."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._marks: object = None
        self.current = Snapshot(None, "the configuration is not loaded yet")

    async def load(self) -> None:
        """Read both files, if one of them has changed since they were read."""
        marks = (_mark_of(self._paths.hmac_key), _mark_of(self._paths.config_data))
        if marks == self._marks:
            return
        started_at = time.monotonic()
        self.current = await in_thread(_read, self._paths)
        # what has changed meanwhile is found by the next check, which its event causes
        self._marks = marks
        self._tell(time.monotonic() - started_at)

    async def follow(self) -> None:
        """Load what changes, until cancelled."""
        while True:
            try:
                watch = FolderWatch(self._paths.data, kinds=_KINDS)
            except OSError as error:
                _log.error("folder.not_watched", reason=explain_os_error(error), retry_s=CHECK_S)
                await trio.sleep(CHECK_S)
                await self.load()
                continue
            async with watch:
                # what has changed before the watch
                await self.load()
                await self._follow(watch)

    async def _follow(self, watch: FolderWatch) -> None:
        """Return when the folder is gone."""
        names = (self._paths.hmac_key.name, self._paths.config_data.name)
        while True:
            with trio.move_on_after(CHECK_S) as scope:
                events = await watch.events()
            if scope.cancelled_caught:
                await self.load()
                continue
            if any(event.needs_rescan or event.name in names for event in events):
                await self.load()
            if any(event.kind & EventKind.FOLDER_GONE for event in events):
                return

    def _tell(self, took_s: float) -> None:
        now = self.current
        if now.key is None:
            _log.error("key.missing", path=self._paths.hmac_key, effect="nobody gets a reply")
        if isinstance(now.catalogue, str):
            _log.warning("config.missing", reason=now.catalogue, effect="all answers are errors")
        else:
            config = now.catalogue.config
            _log.info("config.loaded", serial=config.serial_no, nodes=len(config.nodes), took_s=took_s)


def _mark_of(path: Path) -> _Mark | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return _Mark(found.st_ino, found.st_mtime_ns, found.st_size)


def _read(paths: Paths) -> Snapshot:
    return Snapshot(_read_key(paths.hmac_key), _read_catalogue(paths.config_data))


def _read_key(path: Path) -> bytes | None:
    try:
        # all its bytes: the last newline belongs to it
        return path.read_bytes() or None
    except OSError as error:
        _log.error("key.not_read", reason=explain_os_error(error))
        return None


def _read_catalogue(path: Path) -> Catalogue | str:
    try:
        document = orjson.loads(path.read_bytes())
        return Catalogue(decode_config(document), document)
    except FileNotFoundError:
        return "this node has no configuration: it is no master candidate"
    except OSError as error:
        return f"the configuration cannot be read: {explain_os_error(error)}"
    except orjson.JSONDecodeError as error:
        return f"the configuration is not JSON: {error}"
    except GantryError as error:
        return f"the configuration cannot be used: {error.message}"

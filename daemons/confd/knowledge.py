"""What confd knows: the key and the configuration, read again when their files change.

Theory. Both files are replaced by renames, so the events of their folder tell each change. A check every some seconds
is the backstop. A snapshot is made whole, beside the old one, and takes its place in one step. A file that cannot be
read takes the place of what was read before: no answer is better than an old one. Where that is for want of
descriptors, or by a fault of the disk, each check reads it again.

Source: confd.md 5.
"""

import time
from pathlib import Path
from typing import Final

import orjson
import trio

from common.errors import GantryError, explain_os_error
from common.objects.codec import decode_config
from common.paths import Paths
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.stamps import stamp_if_known
from common.system.watch import EventKind, FolderWatch
from daemons.confd.core.answers import ConfigSnapshot
from daemons.confd.core.catalogue import Catalogue

# seconds between two checks of the files
CHECK_S: Final = 17.0
_KINDS: Final = EventKind.CLOSE_WRITE | EventKind.MOVED_TO | EventKind.MOVED_FROM | EventKind.DELETE
_log: Final = get_log(__name__)


class CurrentSnapshot:
    """The current snapshot."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        # stamps of both files when they were read; None: they have to be read
        self._stamps: object = None
        # what the log has told is missing
        self._told: object = None
        self.current = ConfigSnapshot(None, "the configuration is not loaded yet")

    async def load(self) -> None:
        """Read both files, if one of them has changed since they were read."""
        stamps = (stamp_if_known(self._paths.hmac_key), stamp_if_known(self._paths.config_data))
        if stamps == self._stamps:
            return
        started_at = time.monotonic()
        key, config, self.current = await in_thread(_read, self._paths)
        # what has changed meanwhile is found by the next check, which its event causes
        self._stamps = None if isinstance(key, OSError) or isinstance(config, OSError) else stamps
        self._tell(key, time.monotonic() - started_at)

    async def follow(self) -> None:
        """Load what changes, until cancelled."""
        names = (self._paths.hmac_key.name, self._paths.config_data.name)
        async with FolderWatch(self._paths.data, kinds=_KINDS) as watch:
            # what has changed before the watch
            await self.load()
            while True:
                with trio.move_on_after(CHECK_S) as scope:
                    events = await watch.events()
                if scope.cancelled_caught or any(event.needs_rescan or event.name in names for event in events):
                    await self.load()

    def _tell(self, key: "_Found", took_s: float) -> None:
        now = self.current
        reason = explain_os_error(key) if isinstance(key, OSError) else "there is none"
        told = (reason if now.key is None else None, now.catalogue if isinstance(now.catalogue, str) else None)
        if self._stamps is None and told == self._told:
            # nothing new since the last check
            return
        self._told = told
        if now.key is None:
            _log.error("key.missing", path=self._paths.hmac_key, reason=reason, effect="nobody gets a reply")
        if isinstance(now.catalogue, str):
            _log.warning("config.missing", reason=now.catalogue, effect="all answers are errors")
        else:
            config = now.catalogue.config
            _log.info("config.loaded", serial=config.serial_no, nodes=len(config.nodes), took_s=took_s)


# content of a file; None: there is no such file; an error, which says nothing about it
_Found = bytes | OSError | None


def _read(paths: Paths) -> tuple[_Found, _Found, ConfigSnapshot]:
    """The key, the configuration, and what follows from both."""
    key, config = _content(paths.hmac_key), _content(paths.config_data)
    # of the key all bytes: the last newline belongs to it
    return key, config, ConfigSnapshot((key or None) if isinstance(key, bytes) else None, _catalogue_of(config))


def _content(path: Path) -> _Found:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error


def _catalogue_of(found: _Found) -> Catalogue | str:
    if found is None:
        return "this node has no configuration: it is no master candidate"
    if isinstance(found, OSError):
        return f"the configuration cannot be read: {explain_os_error(found)}"
    try:
        document = orjson.loads(found)
        return Catalogue(decode_config(document), document)
    except orjson.JSONDecodeError as error:
        return f"the configuration is not JSON: {error}"
    except GantryError as error:
        return f"the configuration cannot be used: {error.message}"

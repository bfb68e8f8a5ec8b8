"""luxid's copy of the configuration, which is wconfd's.

Theory. wconfd writes the file, then replies with what it wrote. So when the reply to a
change has arrived, the file has changed: before the copy is used, the file's mark (inode, time, size) is compared
with the mark from before the copy was requested. That is exact, costs one system call, and needs no
events, of which a busy lock table in the same folder would cause thousands. One gap is left: wconfd
serves the new content only a moment after the file has its name, and two writes may have the
same time. So a copy made soon after a write is requested again at each use, until the write is old.

Source: luxid.md 1.6 (last line), 2.2; DESIGN section 6.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs
import trio

from common.errors import ConfigurationError, GantryError
from common.objects.codec import decode_config
from common.objects.index import ConfigIndex
from common.system.inthread import in_thread
from common.system.log import get_log
from protocol.client import Client
from protocol.luxi.changes import WaitForJobChange
from protocol.luxi.daemon.metrics import ReadMetrics
from protocol.messages import AnyRequest
from protocol.serving.route import AnyRoute
from protocol.wconfd.config import ReadConfig

# seconds to wait while wconfd is being restarted
WAIT_S: Final = 5.0
# longer than a write needs to become visible, on a busy disk
SETTLED_NS: Final = 5 * 10**9
_log: Final = get_log(__name__)


class ConfigurationMissing(ConfigurationError):
    """the configuration cannot be had from wconfd"""

    code = "unavailable"


@attrs.frozen
class _Mark:
    """A state of the configuration's file."""

    inode: int
    modified_ns: int
    size: int

    @property
    def is_settled(self) -> bool:
        return time.time_ns() - self.modified_ns > SETTLED_NS


class ConfigCache:
    """The current configuration.

    Args:
        path: its file, which is only checked for changes.
        wconfd: client for requests; not for calls that wait long.
        on_read: called with each new configuration.
    """

    def __init__(self, path: Path, wconfd: Client, on_read: Callable[[ConfigIndex], None] = lambda _: None) -> None:
        self._path = path
        self._wconfd = wconfd
        self._index: ConfigIndex | None = None
        self._on_read = on_read
        self._mark: _Mark | None = None
        # held during a request to wconfd
        self._turn = trio.Lock()
        self._failure: tuple[float, ConfigurationMissing] | None = None

    async def load(self) -> None:
        """Read the configuration before it is needed; a failure is only logged."""
        try:
            await self.require()
        except ConfigurationMissing as error:
            _log.warning("config.missing", reason=error, effect="calls fail until wconfd answers")

    async def require(self) -> None:
        """Make sure that the configuration was read at least once, no matter when. Raises: as `current`."""
        if self._index is None:
            await self.current()

    async def current(self) -> ConfigIndex:
        """Return the configuration with all changes that were acknowledged before this call.

        Raises: ConfigurationMissing: wconfd has not replied for 5 s, or its reply is not a configuration.
        Cost: a check of the file; after a change the whole is read and checked again, once for all callers.
        """
        asked_at = trio.current_time()
        if (index := self._fresh()) is not None:
            return index
        async with self._turn:
            if (index := self._fresh()) is not None:
                return index
            if self._failure is not None and self._failure[0] > asked_at:
                raise ConfigurationMissing(self._failure[1].message)
            try:
                return await self._refresh()
            except ConfigurationMissing as error:
                self._failure = (trio.current_time(), error)
                raise

    def _fresh(self) -> ConfigIndex | None:
        mark = _mark_of(self._path)
        return self._index if mark is not None and mark == self._mark and mark.is_settled else None

    async def _refresh(self) -> ConfigIndex:
        mark = _mark_of(self._path)
        is_likely_same = self._index is not None and mark == self._mark
        try:
            # with a usable copy there is no need to wait for a restart
            content = await (
                self._wconfd.call(ReadConfig()) if is_likely_same else self._wconfd.call_retrying(ReadConfig(), WAIT_S)
            )
            index = await self._read(content)
        except GantryError as error:
            if self._index is not None and is_likely_same:
                return self._index
            raise ConfigurationMissing(f"the configuration cannot be had from wconfd: {error.message}") from error
        has_changed = index is not self._index
        self._index, self._mark = index, mark
        if has_changed:
            self._on_read(index)
        return index

    async def _read(self, content: Mapping[str, object]) -> ConfigIndex:
        had = self._index
        if had is not None and _edition(content) == (had.config.cluster.uuid, had.config.serial_no, had.config.mtime):
            return had
        # checking thousands of objects takes long
        return ConfigIndex(await in_thread(decode_config, content))


def needing_config(route: AnyRoute, config: ConfigCache) -> AnyRoute:
    """Return the route with a check: calls fail as long as no configuration has ever been read.

    A call that only waits for a job's status does not fail: so a client sees its job through in any case; nor do the
    numbers for graphs and alerts.
    """

    async def check(call: AnyRequest) -> None:
        if isinstance(call, ReadMetrics) or (isinstance(call, WaitForJobChange) and call.fields == ("status",)):
            return
        await config.require()

    return route.after(check)


def _mark_of(path: Path) -> _Mark | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return _Mark(found.st_ino, found.st_mtime_ns, found.st_size)


def _edition(content: Mapping[str, object]) -> tuple[object, object, object]:
    cluster = content.get("cluster")
    uuid = cluster.get("uuid") if isinstance(cluster, dict) else None
    return (uuid, content.get("serial_no"), content.get("mtime"))

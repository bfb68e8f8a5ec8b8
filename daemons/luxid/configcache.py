"""luxid's copy of the configuration, which is wconfd's.

Theory. wconfd writes the file, then answers with what it wrote. So whoever has seen the answer to a
change finds the file changed: before the copy is used, the file's mark (inode, time, size) is compared
with the mark from before the copy was asked for. That is exact, costs one system call, and needs no
events, of which a busy table of locks in the same folder would make thousands. One gap is left: wconfd
answers with the new content only some moment after the file has its name, and two writes may bear the
same time. So a copy made soon after a write is asked for anew at each use, until the write is old.

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
from protocol.messages import AnyRequest
from protocol.route import AnyRoute
from protocol.wconfd.config import ReadConfig

# while wconfd is being restarted
WAIT_S: Final = 5.0
# longer than a write takes to become visible, on a disk that is busy
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
    """The configuration as of now.

    Args:
        path: its file, of which only the change is looked at.
        wconfd: the client to ask by; must not be used for calls that wait long.
        on_read: told of each configuration that was read.
    """

    def __init__(self, path: Path, wconfd: Client, on_read: Callable[[ConfigIndex], None] = lambda _: None) -> None:
        self._path = path
        self._wconfd = wconfd
        self._index: ConfigIndex | None = None
        self._on_read = on_read
        self._mark: _Mark | None = None
        # held while wconfd is asked
        self._turn = trio.Lock()
        self._failure: tuple[float, ConfigurationMissing] | None = None

    async def load(self) -> None:
        """Have a copy before it is needed; a failure is only logged."""
        try:
            await self.require()
        except ConfigurationMissing as error:
            _log.warning("config.missing", reason=error, effect="calls fail until wconfd answers")

    async def require(self) -> None:
        """Make sure that the configuration was had at least once; any age will do. Raises: as `current`."""
        if self._index is None:
            await self.current()

    async def current(self) -> ConfigIndex:
        """The configuration with all changes that were answered before this call.

        Raises: ConfigurationMissing: wconfd has not answered for 5 s, or what it answers is no configuration.
        Cost: a look at the file; after a change the whole is read and checked anew, once for all who ask.
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
            # who has it already need not wait for a restart
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
        # thousands of objects take long to check
        return ConfigIndex(await in_thread(decode_config, content))


def needing_config(route: AnyRoute, config: ConfigCache) -> AnyRoute:
    """The route, but calls fail while there has never been a configuration.

    Waiting for a job's status alone does not: so a client sees its job through, whatever happens.
    """

    async def check(call: AnyRequest) -> None:
        if not (isinstance(call, WaitForJobChange) and call.fields == ("status",)):
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

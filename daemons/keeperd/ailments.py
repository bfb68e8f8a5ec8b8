"""Whether this node could be the master now, apart from what etcd says: disk, watchdog, memory of keeperd.

Source: lease.md 6 and 7.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import orjson
import trio

from common.durable.atomicfile import write_file
from common.errors import DamagedFile, GantryError, reason_of
from common.lease.times import watchdog_s
from common.settings import Settings
from common.shapes import Lenient
from common.system.inthread import in_thread
from common.system.log import get_log
from common.wire import structure, unstructure
from daemons.keeperd.core.events import Event, FitnessChanged
from daemons.keeperd.core.states import NodeMemory
from daemons.keeperd.renewing.duties import check_watchdog

# bytes without which a master could not go on for long
_LEAST_FREE: Final = 16 * 2**20
_log: Final = get_log(__name__)


class Ailments:
    """Args: report: is told what has changed."""

    def __init__(self, settings: Settings, report: Callable[[Event], None]) -> None:
        self._settings = settings
        self._report = report
        # part of the node -> why it makes the node unfit
        self._reasons: dict[str, str] = {}

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(self._reasons[part] for part in sorted(self._reasons))

    def set(self, part: str, reason: str) -> None:
        """Note what is wrong with a part; empty: nothing is."""
        if self._reasons.get(part, "") == reason:
            return
        if reason:
            self._reasons[part] = reason
            _log.error("node.unfit", part=part, reason=reason)
        else:
            del self._reasons[part]
            _log.info("node.fit", part=part)
        self._report(FitnessChanged(self.reasons))

    def watchdog(self, reason: str) -> None:
        """Note why the watchdog cannot be used, looked at or open; empty: it can."""
        self.set("watchdog", reason)

    async def run(self, watchdog_is_free: Callable[[], bool]) -> None:
        """Look again and again; for ever. Args: watchdog_is_free: whether nothing here has it open."""
        keeperd = self._settings.keeperd
        while True:
            self.set("disk", await in_thread(why_no_room, self._settings.paths.data))
            if keeperd.watchdog and watchdog_is_free():
                # opened for a moment: a device that is gone must be seen before it is needed
                self.watchdog(await in_thread(check_watchdog, keeperd.watchdog, watchdog_s(keeperd)))
            await trio.sleep(2 * keeperd.ttl_s)


def why_no_room(folder: Path) -> str:
    """Return why nothing more can be stored here; empty: it can."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        return f"'{folder}' cannot be looked at: {reason_of(error)}"
    if status.f_flag & os.ST_RDONLY:
        return f"'{folder}' is read-only"
    free = status.f_bavail * status.f_frsize
    if free < _LEAST_FREE:
        return f"'{folder}' has {free // 2**20} MiB left, at least {_LEAST_FREE // 2**20} are needed"
    return ""


# What keeperd remembers over its restarts, in one file.
#
# Source: lease.md 4.


_MODE: Final = 0o640
# starts within the life of a record
_MOST_NONCES: Final = 16


@attrs.frozen(kw_only=True)
class _StoredMemory(Lenient):
    memory: NodeMemory
    # of the last keeperds here, in their records as members
    nonces: tuple[str, ...] = ()


class Memories:
    """Raises: DamagedFile, OSError: the file cannot be read."""

    def __init__(self, path: Path, nonce: str) -> None:
        self._path = path
        kept = _read(path)
        self.memory = kept.memory
        # of this keeperd, and of those that ran here before it: their records may still be there
        self.nonces = (*kept.nonces[1 - _MOST_NONCES :], nonce)
        self.store(self.memory)

    def store(self, memory: NodeMemory) -> None:
        """Raises: OSError. Durability: on return it survives a loss of power."""
        write_file(self._path, orjson.dumps(unstructure(_StoredMemory(memory=memory, nonces=self.nonces))), mode=_MODE)
        self.memory = memory


def _read(path: Path) -> _StoredMemory:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return _StoredMemory(memory=NodeMemory())
    try:
        return structure(orjson.loads(content), _StoredMemory, "memory")
    except (orjson.JSONDecodeError, GantryError) as error:
        raise DamagedFile(
            f"'{path}' is not what keeperd has written: {error}; remove it if this cluster's etcd was never restored",
            file=str(path),
        ) from error

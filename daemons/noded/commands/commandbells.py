"""News of commands: a bell for each follower rings when something of its command has changed.

Theory. One inotify instance watches the folder of records (an end is put in place; a lock file is closed, as the kernel
does at the death of its holder), the folder that holds the folders of output, and the output of each command that
somebody follows. Nothing is watched before the first follower. The kernel reports a closed lock file some instructions
before the lock is free, so its followers look again a few times.

Source: DESIGN sections 5 and 13.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import inotify_simple
import trio

from common.errors import Unavailable
from common.system.livelock import PROBE_AGAIN_AFTER_S
from common.system.log import get_log
from daemons.noded.commands.commandrecords import LIVE, CommandRecords

_flags = inotify_simple.flags
_RECORDS: Final = _flags.MOVED_TO | _flags.CLOSE_WRITE | _flags.ONLYDIR
_FOLDERS: Final = _flags.CREATE | _flags.ONLYDIR
_OUTPUT: Final = _flags.MODIFY | _flags.CREATE | _flags.ONLYDIR
_log: Final = get_log(__name__)


class Bell:
    """Rings for one follower."""

    def __init__(self) -> None:
        self._rung = trio.Event()
        self._rung_for_records = trio.Event()

    def ring(self, *, is_for_records: bool) -> None:
        self._rung.set()
        if is_for_records:
            self._rung_for_records.set()

    async def wait(self) -> None:
        """Return when it has rung since the last wait."""
        await self._rung.wait()
        self._rung = trio.Event()

    async def wait_for_records(self) -> None:
        """Return when it has rung since the last such wait, but not for output."""
        await self._rung_for_records.wait()
        self._rung_for_records = trio.Event()


class CommandBells:
    """The bells of all followers."""

    def __init__(self, records: CommandRecords, nursery: trio.Nursery) -> None:
        self._records = records
        self._nursery = nursery
        self._bells: dict[str, set[Bell]] = {}
        self._inotify: inotify_simple.INotify | None = None
        # descriptor of a watch <-> key whose output it watches
        self._keys: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._folder_watches = (-1, -1)
        # no more news come: the daemon ends
        self.is_closed = False

    @contextmanager
    def listen(self, key: str) -> Iterator[Bell]:
        """Yield the bell of this key. Raises: Unavailable: the system's limit of watches is reached."""
        bell = Bell()
        self._bells.setdefault(key, set()).add(bell)
        try:
            self._begin()
            self._watch_output(key)
        except OSError as error:
            self._drop(key, bell)
            limit = "; raise fs.inotify.max_user_watches" if error.errno == errno.ENOSPC else ""
            raise Unavailable(f"commands on this node cannot be followed: {error.strerror}{limit}") from error
        try:
            yield bell
        finally:
            self._drop(key, bell)

    def close(self) -> None:
        """Ring all bells for the last time."""
        self.is_closed = True
        self._ring_all()

    def _begin(self) -> None:
        if self._inotify is not None:
            return
        inotify = inotify_simple.INotify(nonblocking=True)
        try:
            records = inotify.add_watch(self._records.folder, _RECORDS)
            self._folder_watches = records, inotify.add_watch(self._records.outputs, _FOLDERS)
        except BaseException:
            inotify.close()
            raise
        self._inotify = inotify
        self._nursery.start_soon(self._take_events, inotify)

    def _watch_output(self, key: str) -> None:
        """Raises: OSError."""
        if key in self._watches or self._inotify is None:
            return
        try:
            watch = self._inotify.add_watch(self._records.output(key), _OUTPUT)
        except FileNotFoundError:
            # no output yet: the folder of folders reports it
            return
        self._keys[watch], self._watches[key] = key, watch

    def _drop(self, key: str, bell: Bell) -> None:
        bells = self._bells[key]
        bells.discard(bell)
        if bells:
            return
        del self._bells[key]
        watch = self._watches.pop(key, None)
        if watch is not None and self._inotify is not None:
            del self._keys[watch]
            try:
                self._inotify.rm_watch(watch)
            except OSError:
                # its folder was removed, and the watch with it
                return

    async def _take_events(self, inotify: inotify_simple.INotify) -> None:
        try:
            while True:
                await trio.lowlevel.wait_readable(inotify.fileno())
                for event in inotify.read(timeout=0):
                    self._take(event)
        finally:
            self._inotify = None
            inotify.close()

    def _take(self, event: inotify_simple.Event) -> None:
        if event.mask & _flags.Q_OVERFLOW:
            _log.warning("commands.news_lost", next="all followers look again")
            self._ring_all()
        elif (key := self._keys.get(event.wd)) is not None:
            self._ring(key, is_for_records=False)
        elif event.wd == self._folder_watches[0]:
            key, _, kind = os.fsdecode(event.name).rpartition(".")
            self._ring(key)
            if kind == LIVE and key in self._bells:
                self._nursery.start_soon(self._ring_again, key)
        elif event.wd == self._folder_watches[1] and event.name in self._bells:
            self._begin_output(event.name)

    def _begin_output(self, key: str) -> None:
        try:
            self._watch_output(key)
        except OSError as error:
            _log.error("commands.output_not_watched", command=key, reason=error, effect="output comes late")
        self._ring(key, is_for_records=False)

    async def _ring_again(self, key: str) -> None:
        for pause_s in PROBE_AGAIN_AFTER_S:
            await trio.sleep(pause_s)
            self._ring(key)

    def _ring(self, key: str, *, is_for_records: bool = True) -> None:
        for bell in self._bells.get(key, ()):
            bell.ring(is_for_records=is_for_records)

    def _ring_all(self) -> None:
        for key in tuple(self._bells):
            self._ring(key)

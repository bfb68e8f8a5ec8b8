"""News of commands: a bell for each follower rings when something of its command has changed.

Theory. The folder of records is watched (an end is put in place; a lock file is closed, as the kernel does at the death
of its holder), the folder that holds the folders of output, and the output of each command that somebody follows.
Nothing is watched before the first follower. The kernel reports a closed lock file some instructions before the lock is
free, so its followers look again a few times. Where the kernel gives no watch, all followers look every second.

Source: DESIGN sections 5 and 13.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import trio

from common.system.livelock import PROBE_AGAIN_AFTER_S
from common.system.watch import EventKind, FolderEvent, FolderWatch
from daemons.noded.commands.commandrecords import LIVE, CommandRecords

_RECORDS: Final = EventKind.MOVED_TO | EventKind.CLOSE_WRITE
_OUTPUT: Final = EventKind.MODIFY | EventKind.CREATE
# seconds between two looks while the kernel tells of no news
_LOOK_S: Final = 1.0


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
        self._is_watching = False
        # key -> watch of its output
        self._outputs: dict[str, FolderWatch] = {}
        # no more news come: the daemon ends
        self.is_closed = False

    @contextmanager
    def listen(self, key: str) -> Iterator[Bell]:
        """Yield the bell of this key."""
        bell = Bell()
        self._bells.setdefault(key, set()).add(bell)
        try:
            self._begin()
            self._watch_output(key)
            yield bell
        finally:
            self._drop(key, bell)

    def close(self) -> None:
        """Ring all bells for the last time."""
        self.is_closed = True
        self._ring_all()

    def _begin(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            # watched from here on, not only when the tasks begin
            self._follow(FolderWatch(self._records.folder, kinds=_RECORDS, look_s=_LOOK_S), self._take_records)
            self._follow(FolderWatch(self._records.outputs, kinds=EventKind.CREATE, look_s=_LOOK_S), self._take_folders)

    def _watch_output(self, key: str) -> None:
        folder = self._records.output(key)
        # without output yet the folder of folders tells of it
        if key not in self._outputs and folder.is_dir():
            watch = self._outputs[key] = FolderWatch(folder, kinds=_OUTPUT, look_s=_LOOK_S)
            self._follow(watch, partial(self._take_output, key))

    def _drop(self, key: str, bell: Bell) -> None:
        bells = self._bells[key]
        bells.discard(bell)
        if bells:
            return
        del self._bells[key]
        if (watch := self._outputs.pop(key, None)) is not None:
            watch.close()

    def _follow(self, watch: FolderWatch, take: Callable[[Sequence[FolderEvent]], None]) -> None:
        async def follow() -> None:
            async with watch:
                try:
                    while True:
                        take(await watch.events())
                except trio.ClosedResourceError:
                    # its last follower has gone
                    return

        self._nursery.start_soon(follow)

    def _take_records(self, events: Sequence[FolderEvent]) -> None:
        for event in events:
            if event.needs_rescan:
                self._ring_all()
                continue
            key, _, kind = event.name.rpartition(".")
            self._ring(key)
            if kind == LIVE and key in self._bells:
                self._nursery.start_soon(self._ring_again, key)

    def _take_folders(self, events: Sequence[FolderEvent]) -> None:
        is_any = any(event.needs_rescan for event in events)
        for key in tuple(self._bells) if is_any else self._bells.keys() & {event.name for event in events}:
            self._watch_output(key)
            self._ring(key, is_for_records=False)

    def _take_output(self, key: str, events: Sequence[FolderEvent]) -> None:
        if any(event.kind & EventKind.FOLDER_GONE for event in events) and key in self._outputs:
            # the folder of folders tells of a new one
            self._outputs.pop(key).close()
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

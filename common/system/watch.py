"""Watching a folder: what happens to the files in it, as events.

A watch is made before the folder is read for the first time, so that nothing is missed between.
The kernel keeps a queue of bounded length; when it overflows events are lost, and one that says
so arrives: whoever gets it reads the whole folder again.
"""

import enum
import os
from pathlib import Path
from typing import Self

import attrs
import inotify_simple
import trio


class EventKind(enum.IntFlag):
    """What happened; the values are the kernel's."""

    MODIFY = 0x2
    # a descriptor that could write is closed, by its process or by the kernel at its end
    CLOSE_WRITE = 0x8
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    # these two come unasked, with the name "": events were lost; the folder is gone, no more will come
    OVERFLOW = 0x4000
    FOLDER_GONE = 0x8000


_ALL_KINDS = EventKind(sum(EventKind))


@attrs.frozen
class FolderEvent:
    # within the folder; "" for OVERFLOW and FOLDER_GONE
    name: str
    kind: EventKind

    @property
    def needs_rescan(self) -> bool:
        return bool(self.kind & (EventKind.OVERFLOW | EventKind.FOLDER_GONE))


class FolderWatch:
    """The events of one folder, from the moment of construction on.

    Raises:
        OSError: the folder is missing, or the system's limit of watches is reached
            (fs.inotify.max_user_instances and max_user_watches).
    """

    def __init__(self, folder: Path, *, kinds: EventKind) -> None:
        self.folder = folder
        self._inotify = inotify_simple.INotify(nonblocking=True)
        try:
            self._inotify.add_watch(folder, int(kinds) | inotify_simple.flags.ONLYDIR)
        except BaseException:
            self._inotify.close()
            raise

    async def events(self) -> list[FolderEvent]:
        """Wait until something happened; returns all of it, oldest first, never nothing.

        Raises:
            trio.ClosedResourceError: the watch was closed, before or meanwhile.
            trio.BusyResourceError: another task waits here already.
        Cancellation: no event is lost.
        """
        self._check_open()
        while True:
            await trio.lowlevel.wait_readable(self._inotify.fileno())
            # another task may have closed it after this one was woken
            self._check_open()
            if events := self.take():
                return events

    def _check_open(self) -> None:
        if self._inotify.closed:
            raise trio.ClosedResourceError(f"the watch of '{self.folder}' is closed")

    def take(self) -> list[FolderEvent]:
        """What happened since the last call, without waiting; may be nothing."""
        return [
            FolderEvent(os.fsdecode(event.name), EventKind(event.mask) & _ALL_KINDS)
            for event in self._inotify.read(timeout=0)
        ]

    def close(self) -> None:
        """End the watch; a task that waits gets ClosedResourceError."""
        if not self._inotify.closed:
            trio.lowlevel.notify_closing(self._inotify.fileno())
            self._inotify.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

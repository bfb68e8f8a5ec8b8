"""Watch a folder: changes of its files arrive as events.

Make the watch before the first reading of the folder, so that nothing is missed in between.
The kernel's queue has a bounded length. When it overflows, events are lost, and an event reports
that: then read the whole folder again.
"""

import enum
import os
from pathlib import Path
from typing import Self

import attrs
import inotify_simple
import trio


class EventKind(enum.IntFlag):
    """The kind of change; the values are the kernel's."""

    MODIFY = 0x2
    # a writable descriptor was closed, by its process or by the kernel at the end of the process
    CLOSE_WRITE = 0x8
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    # these two always come, with the name "": events were lost; the folder is gone, and no more events will come
    OVERFLOW = 0x4000
    FOLDER_GONE = 0x8000


_ALL_KINDS = EventKind(sum(EventKind))


@attrs.frozen
class FolderEvent:
    # name within the folder; "" for OVERFLOW and FOLDER_GONE
    name: str
    kind: EventKind

    @property
    def needs_rescan(self) -> bool:
        return bool(self.kind & (EventKind.OVERFLOW | EventKind.FOLDER_GONE))


class FolderWatch:
    """The events of one folder, from construction on.

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
        """Wait for events; return all of them, oldest first, at least one.

        Raises:
            trio.ClosedResourceError: the watch was closed, before or meanwhile.
            trio.BusyResourceError: another task is waiting here.
        Cancellation: no event is lost.
        """
        self._check_open()
        while True:
            await trio.lowlevel.wait_readable(self._inotify.fileno())
            # another task may have closed the watch after this one was woken
            self._check_open()
            if events := self.take():
                return events

    def _check_open(self) -> None:
        if self._inotify.closed:
            raise trio.ClosedResourceError(f"the watch of '{self.folder}' is closed")

    def take(self) -> list[FolderEvent]:
        """The events since the last call, without waiting; may be empty."""
        return [
            FolderEvent(os.fsdecode(event.name), EventKind(event.mask) & _ALL_KINDS)
            for event in self._inotify.read(timeout=0)
        ]

    def close(self) -> None:
        """Close the watch; a waiting task gets ClosedResourceError."""
        if not self._inotify.closed:
            trio.lowlevel.notify_closing(self._inotify.fileno())
            self._inotify.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

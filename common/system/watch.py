"""Watch folders: changes of their files arrive as events.

Make a watch before the first reading of its folder, so that nothing is missed in between. Whenever events were lost, or
could not come, an event asks to read the whole folder again (`FolderEvent.needs_rescan`).

Theory. The kernel gives a user few inotify instances (Debian: 128), and many watches. So a process has one instance,
made with its first watch and closed with its last; a task of trio's reads it, and passes each event to the watches of
its folder. Where the kernel refuses an instance or a watch, and while the folder is missing, the watch is not a
failure of its owner: it asks for a look at the whole folder at intervals, and is tried again each time. The log tells
the reason once, `unwatched` as long as it lasts.

Source: inotify(7).
"""

import enum
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import attrs
import inotify_simple
import trio

from common.errors import explain_os_error
from common.system.log import get_log

# seconds between two looks at a folder that cannot be watched
LOOK_S: Final = 5.0
# events kept for a slow reader: as many as the kernel keeps by default
_MOST_EVENTS: Final = 16384
_LIMITS: Final = Path("/proc/sys/fs/inotify")
_flags: Final = inotify_simple.flags
_log: Final = get_log(__name__)


class EventKind(enum.IntFlag):
    """The kind of change; the values are the kernel's, but for the last one."""

    MODIFY = 0x2
    # a writable descriptor was closed, by its process or by the kernel at the end of the process
    CLOSE_WRITE = 0x8
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    # these always come, with the name "": events were lost; the folder is gone, and is watched again once it is there;
    # the folder was not watched since the last event
    OVERFLOW = 0x4000
    FOLDER_GONE = 0x8000
    UNWATCHED = 0x100000000


_ALL_KINDS: Final = EventKind(sum(EventKind))
_RESCAN: Final = EventKind.OVERFLOW | EventKind.FOLDER_GONE | EventKind.UNWATCHED


@attrs.frozen
class FolderEvent:
    # name within the folder; "" where the whole folder is to be read again
    name: str
    kind: EventKind

    @property
    def needs_rescan(self) -> bool:
        return bool(self.kind & _RESCAN)


class FolderWatch:
    """The events of one folder, from construction on. Close it. A watch is used in the thread that has made it.

    Args:
        look_s: seconds between two events that ask for a look at the folder while it cannot be watched.
        told: called with the reason when it cannot be watched, instead of the log.
    """

    def __init__(
        self, folder: Path, *, kinds: EventKind, look_s: float = LOOK_S, told: Callable[[str], None] | None = None
    ) -> None:
        self.folder = folder
        self._kinds = kinds
        self._look_s = look_s
        self._told = told or self._log
        self._found: list[FolderEvent] = []
        self._news = trio.Event()
        self._is_closed = self._is_awaited = False
        self._instance: _Instance | None = None
        # why the folder is not watched; "": it is
        self.failure = ""
        # time of the next try, by trio's clock; None: it is set with the next wait
        self._next_try_at: float | None = None
        self._begin()

    async def events(self) -> list[FolderEvent]:
        """Wait for events; return all of them, oldest first, at least one.

        Raises:
            trio.ClosedResourceError: the watch was closed, before or meanwhile.
            trio.BusyResourceError: another task is waiting here.
        Cancellation: no event is lost.
        """
        self._check_open()
        if self._is_awaited:
            raise trio.BusyResourceError(f"another task waits for the events of '{self.folder}'")
        self._is_awaited = True
        try:
            return await self._wait()
        finally:
            self._is_awaited = False

    async def _wait(self) -> list[FolderEvent]:
        await trio.lowlevel.checkpoint_if_cancelled()
        has_waited = False
        while True:
            self._check_open()
            if events := self._taken():
                if not has_waited:
                    await trio.lowlevel.cancel_shielded_checkpoint()
                return events
            has_waited = True
            if self._instance is not None:
                self._instance.serve()
                await self._news.wait()
            elif await self._is_time_to_try():
                self._next_try_at = None
                self._begin()
                # what has happened until now came without events
                self._put(FolderEvent("", EventKind.UNWATCHED))

    async def _is_time_to_try(self) -> bool:
        """Wait for the next try; false: an event came before, or the watch was closed."""
        if self._next_try_at is None:
            self._next_try_at = trio.current_time() + self._look_s
        with trio.move_on_at(self._next_try_at) as scope:
            await self._news.wait()
        return scope.cancelled_caught

    def take(self) -> list[FolderEvent]:
        """The events since the last call, without waiting; may be empty."""
        if self._instance is not None:
            self._instance.read()
        return self._taken()

    def _taken(self) -> list[FolderEvent]:
        events, self._found = self._found, []
        if self._news.is_set() and not self._is_closed:
            self._news = trio.Event()
        return events

    def close(self) -> None:
        """Close the watch; a waiting task gets ClosedResourceError."""
        if not self._is_closed:
            self._is_closed = True
            _unwatched.discard(self)
            self._news.set()
            if self._instance is not None:
                self._instance.drop(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def deliver(self, name: str, mask: int) -> None:
        """For the instance: an event of this folder, of any kind, or the loss of events."""
        kind = EventKind(mask) & (self._kinds | _RESCAN)
        if kind & EventKind.FOLDER_GONE:
            # another one may have its place already
            self._instance, self._next_try_at = None, -float("inf")
        if kind:
            self._put(FolderEvent(name, kind))

    def _put(self, event: FolderEvent) -> None:
        if len(self._found) >= _MOST_EVENTS:
            event = FolderEvent("", EventKind.OVERFLOW)
        # an event that repeats the last one tells nothing
        if not self._found or self._found[-1] != event:
            self._found.append(event)
            self._news.set()

    def _begin(self) -> None:
        try:
            self._instance = _with_instance(lambda instance: instance.add(self, self.folder, self._kinds))
        except OSError as error:
            self._fail(_explained(error, self.folder))
            return
        if self.failure:
            _log.info("folder.watched", path=self.folder, effect="its events come again")
        self.failure = ""
        _unwatched.discard(self)
        _logged.intersection_update([watch.failure for watch in _unwatched])

    def _fail(self, why: str) -> None:
        if why != self.failure:
            self._told(why)
        self.failure = why
        _unwatched.add(self)

    def _log(self, why: str) -> None:
        """A limit that concerns all folders is logged once."""
        if why in _logged:
            return
        _logged.add(why)
        effect = f"looked at every {self._look_s:g} s; tried again each time"
        _log.error("folder.not_watched", path=self.folder, reason=why, effect=effect)

    def _check_open(self) -> None:
        if self._is_closed:
            raise trio.ClosedResourceError(f"the watch of '{self.folder}' is closed")


class _Instance:
    """The inotify instance of a thread, nearly always of a process. Raises: OSError: the kernel gives none."""

    def __init__(self) -> None:
        self._inotify = inotify_simple.INotify(nonblocking=True)
        # number of the kernel -> watches of one folder
        self._watches: dict[int, list[FolderWatch]] = {}
        self._is_served = False

    def add(self, watch: FolderWatch, folder: Path, kinds: EventKind) -> "_Instance":
        """Raises: OSError: the folder cannot be watched."""
        # an older event is none of the new watch
        self._pass_on_all()
        # a second watch of a folder has the number of the first one, whose kinds must stay
        number = self._inotify.add_watch(folder, int(kinds) | _flags.ONLYDIR | _flags.MASK_ADD)
        self._watches.setdefault(number, []).append(watch)
        return self

    def drop(self, watch: FolderWatch) -> None:
        """Watch its folder no more, unless another one does; without any watch the instance ends."""
        for number, watches in tuple(self._watches.items()):
            if watch in watches:
                watches.remove(watch)
                if not watches:
                    del self._watches[number]
                    self._forget(number)
        self.end_if_idle()

    def _forget(self, number: int) -> None:
        try:
            self._inotify.rm_watch(number)
        except OSError as error:
            # the folder is gone, and its watch with it; the event of that is still to be read
            if error.errno != errno.EINVAL:
                raise

    def end_if_idle(self) -> None:
        if self._watches or self._inotify.closed:
            return
        if self._is_served:
            trio.lowlevel.notify_closing(self._inotify.fileno())
        self._inotify.close()
        if getattr(_of_thread, "instance", None) is self:
            _of_thread.instance = None

    def serve(self) -> None:
        """Pass on events from now on, as long as trio runs."""
        if not self._is_served:
            self._is_served = True
            trio.lowlevel.spawn_system_task(self._pass_on)

    async def _pass_on(self) -> None:
        try:
            while not self._inotify.closed:
                await trio.lowlevel.wait_readable(self._inotify.fileno())
                self.read()
        except trio.ClosedResourceError:
            # no watch is left
            return
        finally:
            self._is_served = False

    def read(self) -> None:
        """Pass on all events that have come."""
        if not self._inotify.closed:
            self._pass_on_all()
            self.end_if_idle()

    def _pass_on_all(self) -> None:
        for event in self._inotify.read(timeout=0):
            if event.mask & _flags.Q_OVERFLOW:
                _log.warning("watch.overflow", effect="all folders are looked at")
                receivers = [watch for watches in self._watches.values() for watch in watches]
            elif event.mask & _flags.IGNORED:
                receivers = self._watches.pop(event.wd, [])
            else:
                receivers = self._watches.get(event.wd, [])
            for watch in receivers:
                watch.deliver(event.name, event.mask & int(_ALL_KINDS))


_of_thread = threading.local()
_unwatched: Final[set[FolderWatch]] = set()
# reasons that the log has told
_logged: Final[set[str]] = set()


def unwatched() -> tuple[str, ...]:
    """The folders that this process wants to watch and cannot, each with the reason."""
    return tuple(sorted(f"'{watch.folder}': {watch.failure}" for watch in list(_unwatched)))


def _with_instance(add: Callable[[_Instance], _Instance]) -> _Instance:
    """Raises: OSError: no instance is to be had, or the folder cannot be watched."""
    instance = getattr(_of_thread, "instance", None)
    if instance is None:
        instance = _of_thread.instance = _Instance()
    try:
        return add(instance)
    except BaseException:
        instance.end_if_idle()
        raise


def _forget_parents() -> None:
    """A forked child must not take the events of its parent."""
    _of_thread.instance = None
    _unwatched.clear()


os.register_at_fork(after_in_child=_forget_parents)


def _explained(error: OSError, folder: Path) -> str:
    if error.errno == errno.ENOSPC:
        return _limit("max_user_watches", "watches of folders")
    if error.errno == errno.EMFILE and _has_descriptors():
        return _limit("max_user_instances", "inotify instances")
    return explain_os_error(error if error.filename else OSError(error.errno, error.strerror, str(folder)))


def _limit(name: str, what: str) -> str:
    try:
        count = f" (now {int((_LIMITS / name).read_text())})"
    except (OSError, ValueError):
        count = ""
    return f"this user has used up the {what} that the kernel allows; raise fs.inotify.{name}{count} with sysctl"


def _has_descriptors() -> bool:
    """Whether this process may open a further file: the kernel has one error for both limits."""
    try:
        os.close(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True

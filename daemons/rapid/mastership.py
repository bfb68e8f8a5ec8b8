"""Whether this node is the master, and who is; asked for every request, so it is read only when a file has changed.

Under a lease it is asked also whether the deadline has passed, which is a look at memory.

Source: DESIGN sections 12 and 14.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import trio

from common.errors import GantryError, explain, explain_os_error
from common.lease.deadline import Deadline
from common.nodes.nodeplace import master_name, why_not_master
from common.settings import Settings
from common.system.clocks import BootTimer
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.stamps import stamp_if_known
from common.system.watch import EventKind, FolderWatch
from daemons.rapid.refusals import RequestRefused

# Whether the mastership of this node may have ended since one has looked, where it is held under a lease.
#
# Source: DESIGN section 14.


class LeaseClock:
    """The deadline of this node's mastership. Args: path: its file; keeperd makes a new one at each of its starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # of the file that is open; None: there is none
        self._identity: tuple[int, int] | None = None
        self._deadline: Deadline | None = None

    def stamp(self) -> object:
        """Something that differs when the deadline has passed, or counts again. Raises: OSError."""
        deadline = self._opened()
        return self._identity, deadline is None or deadline.has_passed

    async def until_passed(self) -> None:
        """Wait until the deadline has passed; return at once if there is none. Raises: OSError."""
        timer = BootTimer()
        try:
            while (deadline := self._opened()) is not None and not deadline.has_passed:
                timer.set(deadline.until_s)
                await trio.lowlevel.wait_readable(timer.fileno())
        finally:
            timer.close()

    def _opened(self) -> Deadline | None:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            identity = None
        else:
            identity = (status.st_dev, status.st_ino)
        if identity != self._identity:
            self._reopen(identity)
        return self._deadline

    def _reopen(self, identity: tuple[int, int] | None) -> None:
        if self._deadline is not None:
            self._deadline.close()
        self._identity, self._deadline = identity, None
        if identity is not None:
            with contextlib.suppress(FileNotFoundError):
                self._deadline = Deadline(self._path)


_CHANGES: Final = EventKind.MOVED_TO | EventKind.CLOSE_WRITE | EventKind.DELETE
_log: Final = get_log(__name__)


@attrs.frozen
class NodeStatus:
    """This node among the others."""

    # name of the master; None: this node knows none
    master: str | None
    # why this node does not serve; None: it is the master
    why_not: str | None


class Mastership:
    """The standing of this node, by its files."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        paths = settings.paths
        self._files = (
            paths.ssconf_file("master_node"),
            paths.ssconf_file("master_candidates"),
            paths.epoch_file,
            paths.not_master_note,
            *((paths.grant_file,) if settings.cluster.has_lease else ()),
        )
        self._clock = LeaseClock(paths.deadline_file) if settings.cluster.has_lease else None
        # for `follow`
        self._was_master = False
        self._news = trio.Event()
        self._stamps: tuple[object, ...] | None = None
        self._standing = NodeStatus(None, None)

    async def standing(self) -> NodeStatus:
        """The standing by what the files say now; the last one known if they cannot be read."""
        if not self._settings.cluster.has_nodes and self._stamps is not None:
            # one machine is always the master
            return self._standing
        try:
            stamps = self._look()
        except OSError as error:
            _log.error("place.unknown", reason=explain_os_error(error), effect="as before")
            return self._standing
        if stamps != self._stamps:
            try:
                self._standing = await in_thread(self._read)
                self._stamps = stamps
            except (GantryError, OSError) as error:
                reason = explain(error)
                _log.error("place.unknown", reason=reason, effect="as before")
        return self._standing

    async def check(self, path: str) -> None:
        """Raises: RequestRefused: this node is not the master; the error says who is, and where the path is there."""
        standing = await self.standing()
        if standing.why_not is not None:
            # an address in the settings is this node's
            there = attrs.evolve(self._settings.rapid, address="")
            url = f"{there.url(standing.master)}{path}" if standing.master else None
            raise RequestRefused(503, standing.why_not, headers={"Retry-After": "5"}, master=standing.master, url=url)

    async def follow(self, lost: Callable[[], None]) -> None:
        """Call `lost` whenever this node ceases to be the master, until cancelled; on one machine, return."""
        if not self._settings.cluster.has_nodes:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_folder, self._settings.paths.data, lost)
            if self._clock is not None:
                nursery.start_soon(self._follow_folder, self._settings.paths.grant_file.parent, lost)
                nursery.start_soon(self._follow_clock, self._clock, lost)

    async def _follow_folder(self, folder: Path, lost: Callable[[], None]) -> None:
        async with FolderWatch(folder, kinds=_CHANGES) as watch:
            while True:
                await self._note(lost)
                await watch.events()

    async def _follow_clock(self, clock: LeaseClock, lost: Callable[[], None]) -> None:
        while True:
            news = self._news
            try:
                await clock.until_passed()
                await self._note(lost)
            except OSError as error:
                _log.error(
                    "place.not_watched", reason=explain_os_error(error), going_on="with the next change of files"
                )
            if news is self._news:
                await news.wait()

    async def _note(self, lost: Callable[[], None]) -> None:
        standing = await self.standing()
        if self._was_master and standing.why_not is not None:
            _log.info("master.moved", master=standing.master, effect="requests that wait, and streams, end here")
            lost()
        if (standing.why_not is None) != self._was_master:
            self._was_master = standing.why_not is None
            # the clock is waited for only while this node is the master
            self._news.set()
            self._news = trio.Event()

    def _look(self) -> tuple[object, ...]:
        return (*map(stamp_if_known, self._files), self._clock.stamp() if self._clock is not None else None)

    def _read(self) -> NodeStatus:
        master, why_not = master_name(self._settings.paths), why_not_master(self._settings)
        if why_not is not None and self._clock is not None and master == self._settings.cluster.own_name:
            # it was, and the next one is not known here yet
            master = ""
        return NodeStatus(master or None, why_not)

"""One subscription of luxid and of wconfd, for all streams.

Theory. rapid subscribes as one who may only look, so the events hold nothing that some caller may not see, and each is
made once. It subscribes while there are streams, and a while after. Whoever comes first waits until luxid has replied:
what changes before that would be told to nobody.

Source: DESIGN section 15.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

import trio

from common.access import Role
from common.errors import GantryError
from common.paths import Paths
from common.system.log import get_log
from daemons.rapid.events.eventlog import Event, EventLog, Place
from daemons.rapid.events.knowledge import FIELDS, Knowledge
from protocol.luxi.feed import FeedBegin, FeedChanges, Subscribe
from protocol.luxi.feed import Topic as FeedTopic
from protocol.luxifeed import LuxidFeed
from protocol.speaker import Speaker
from protocol.subscription import Event as LocksEvent
from protocol.subscription import WconfdEvents

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
# called when the connection to a daemon is lost
Lost = Callable[[], None]

# seconds for which the subscriptions are kept when the last stream has ended
_KEPT_S: Final = 60.0
# seconds that the first stream waits for luxid
_PATIENCE_S: Final = 2.0
# seconds after a refusal, until the next attempt
_PAUSE_S: Final = 5.0
_log: Final = get_log(__name__)


class Feed(Protocol[T_co]):
    """Events of a daemon, from a connection that is made again when it was lost."""

    async def next(self) -> T_co: ...

    async def aclose(self) -> None: ...


class Hub:
    """The events for all streams.

    Args: luxid, wconfd: open their feeds; called with what to call when a connection is lost.
    """

    def __init__(
        self, luxid: Callable[[Lost], Feed[FeedBegin | FeedChanges]], wconfd: Callable[[Lost], Feed[LocksEvent]]
    ) -> None:
        self._open_luxid = luxid
        self._open_wconfd = wconfd
        self.log = EventLog()
        self.knowledge = Knowledge(self.log)
        # names this run in the ids of events
        self._run = secrets.token_hex(4)
        self.streams = 0
        self._wanted = trio.Event()
        self._unwanted = trio.Event()
        self._begun = trio.Event()
        self._news = trio.Event()

    async def run(self) -> None:
        """Subscribe whenever there are streams.

        Cancellation: the connections are closed.
        """
        while True:
            await self._wanted.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._follow_luxid)
                nursery.start_soon(self._follow_wconfd)
                await self._until_unwanted()
                nursery.cancel_scope.cancel()
            self._begun = trio.Event()
            # what changes from now on is told to nobody: later streams must not continue from before
            self._run = secrets.token_hex(4)

    @contextmanager
    def following(self) -> Iterator[None]:
        """While it is open there is a stream."""
        self.streams += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.streams -= 1
            if not self.streams:
                self._wanted = trio.Event()
                self._unwanted.set()
                self._unwanted = trio.Event()

    async def ready(self) -> None:
        """Wait until luxid's feed has begun; but not for long, since luxid may be away."""
        with trio.move_on_after(_PATIENCE_S):
            await self._begun.wait()

    def place(self, serial: int) -> Place:
        """The id of an event."""
        return Place(self._run, serial)

    def after(self, place: Place) -> list[Event] | None:
        """The events after this place; None: they are not known any more."""
        return self.log.after(place.serial) if place.run == self._run else None

    async def wait(self, serial: int, timeout_s: float) -> bool:
        """Wait for an event after this one; False: there was none in this time."""
        with trio.move_on_after(timeout_s):
            while self.log.last <= serial:
                await self._news.wait()
            return True
        return False

    async def _until_unwanted(self) -> None:
        """Return when there was no stream for a while."""
        while True:
            if self.streams:
                await self._unwanted.wait()
                continue
            with trio.move_on_after(_KEPT_S):
                await self._wanted.wait()
                continue
            return

    async def _follow_luxid(self) -> None:
        def take(event: FeedBegin | FeedChanges) -> None:
            if isinstance(event, FeedBegin):
                self.knowledge.begun(event)
                self._begun.set()
            else:
                self.knowledge.changed(event)

        await self._follow("luxid", self._open_luxid, take, self.knowledge.luxid_is_away)

    async def _follow_wconfd(self) -> None:
        await self._follow("wconfd", self._open_wconfd, self.knowledge.locks_changed, self.knowledge.wconfd_is_away)

    async def _follow(
        self, daemon: str, open_feed: Callable[[Lost], Feed[T]], take: Callable[[T], None], away: Callable[[], None]
    ) -> None:
        """Take in the events of a daemon, for ever; after a refusal try again."""

        def lost() -> None:
            away()
            self._tell()

        while True:
            feed = open_feed(lost)
            try:
                while True:
                    take(await feed.next())
                    self._tell()
            except GantryError as error:
                _log.warning("events.refused", daemon=daemon, reason=error.message, retry_s=_PAUSE_S)
            finally:
                lost()
                with trio.CancelScope(shield=True):
                    await feed.aclose()
            await trio.sleep(_PAUSE_S)

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()


def hub_of(paths: Paths) -> Hub:
    """The hub of an installation; it sees what everybody may see who may look at all."""
    asked = Subscribe(tuple(FeedTopic), fields=FIELDS, with_snapshot=False)

    def luxid(lost: Lost) -> LuxidFeed:
        return LuxidFeed(paths.query_socket, asked, Speaker("rapid", Role.READ), lost)

    def wconfd(lost: Lost) -> WconfdEvents:
        return WconfdEvents(paths.wconfd_socket, lost)

    return Hub(luxid, wconfd)

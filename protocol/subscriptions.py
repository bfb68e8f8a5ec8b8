"""Subscriptions that survive the restarts of their daemon: luxid's feed, and the changes in wconfd."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import attrs
import trio

from common.errors import ProtocolError, RemoteError, Unavailable
from common.locks import Owner
from common.system.signals import do_nothing
from common.wire import structure
from protocol.client import Client
from protocol.luxi.feed import FeedBegin, FeedChanges, FeedPlace, read_changes
from protocol.luxi.feed import Subscribe as SubscribeJobs
from protocol.peer import Speaker
from protocol.unixsocket import pauses
from protocol.wconfd.locks import LOCKS_CHANGED, ORPHANS_CHANGED, Holdings, OrphanedLocks, Owned
from protocol.wconfd.locks import SubscribeToChanges as SubscribeLocks

# A subscription that survives the restarts of its daemon.
#
# Source: DESIGN sections 6 and 8.


T = TypeVar("T")


class ReconnectingFeed(ABC, Generic[T]):
    """What a daemon tells, in order; for one task.

    Args: lost: called when the daemon is away, once until it is back.
    """

    def __init__(self, client: Client, lost: Callable[[], None]) -> None:
        self._client = client
        self._lost = lost
        # after attempts, and after refusals, in a row
        self._pauses = pauses()
        self._refusals = pauses()
        self._is_connected = False

    @abstractmethod
    async def _begin(self) -> T:
        """Subscribe; return the beginning."""

    @abstractmethod
    async def _read(self) -> T | None:
        """Wait for the next event; None: it means nothing to us."""

    async def aclose(self) -> None:
        await self._client.aclose()

    async def next(self) -> T:
        """Wait for the next event, however long the daemon is away.

        Raises: Denied, RemoteError: this caller may not subscribe, or the daemon cannot serve it. ProtocolError,
            InvalidRequest: a daemon of another release.
        Cancellation: safe; the next call begins with a beginning.
        """
        while True:
            was_connected = self._is_connected
            self._is_connected = False
            try:
                told = await (self._next() if was_connected else self._begin())
            except Unavailable:
                if was_connected:
                    # the first attempt is made at once: the daemon may be back
                    self._lost()
                else:
                    await trio.sleep(next(self._pauses))
            except RemoteError as error:
                if error.code != Unavailable.code:
                    raise
                # this caller is too slow, or the daemon lacks something: it may say the same again at once
                await trio.sleep(next(self._refusals))
            else:
                self._is_connected = True
                self._pauses = pauses()
                return told

    async def _next(self) -> T:
        while True:
            told = await self._read()
            if told is not None:
                self._refusals = pauses()
                return told


# luxid's feed for trio programs: a subscription that survives luxid's restarts.
#
# Source: `protocol.luxi.feed`.


class LuxidFeed(ReconnectingFeed[FeedBegin | FeedChanges]):
    """A beginning, then changes, in order; for one task.

    After a lost connection it continues where it was, if luxid can; a beginning says so.

    Args:
        speaker: user in whose name to subscribe; None: this process.
        lost: called when luxid is away, once until it is back.
    """

    def __init__(
        self, path: Path, asked: SubscribeJobs, speaker: Speaker | None = None, lost: Callable[[], None] = do_nothing
    ) -> None:
        super().__init__(Client(path, daemon="luxid"), lost)
        self._place = FeedPlace(asked)
        self._speaker = speaker

    @property
    def position(self) -> str | None:
        """The place up to which everything was read."""
        return self._place.position

    async def _begin(self) -> FeedBegin:
        begun = await self._client.subscribe(self._place.request(), self._speaker)
        self._place.begin(begun)
        return begun

    async def _read(self) -> FeedChanges | None:
        told = read_changes(*await self._client.event())
        if told is None:
            return None
        self._place.go_on(*told)
        return told[1]


# Changes in wconfd as they happen: a subscription that survives wconfd's restarts.
#
# Source: DESIGN section 8.


@attrs.frozen
class Snapshot:
    """The state at the beginning of a connection; it replaces all earlier knowledge."""

    holdings: tuple[Holdings, ...]
    config_serial: int


@attrs.frozen
class HoldingsChanged:
    """Owners whose holdings or pending requests changed, each with all its present holdings; later rows win."""

    holdings: tuple[tuple[Owner, tuple[Owned, ...]], ...]


@attrs.frozen
class ConfigChanged:
    serial: int
    # whether filter rules, or limits of jobs, changed
    filters_changed: bool


@attrs.frozen
class OrphansChanged:
    """All orphaned locks, after a change of them. A snapshot lacks them: ask by `ListOrphanedLocks` after it."""

    orphans: tuple[OrphanedLocks, ...]


@attrs.frozen
class KeptChanged:
    """Schedules or resources have changed; a snapshot does not tell them: read them after it."""

    # `protocol.wconfd.locks.SCHEDULES` or `RESOURCES`
    what: str


Event = Snapshot | HoldingsChanged | ConfigChanged | OrphansChanged | KeptChanged


class WconfdEvents(ReconnectingFeed[Event]):
    """Snapshots and changes, in order; for one task.

    A change that is seen is durable. A snapshot comes first, and again after each reconnection:
    wconfd was restarted, or this subscriber was too slow.

    Args: lost: called when wconfd is away, once until it is back.
    """

    def __init__(self, path: Path, lost: Callable[[], None] = do_nothing) -> None:
        super().__init__(Client(path, daemon="the lock daemon"), lost)

    async def _begin(self) -> Snapshot:
        return Snapshot(*await self._client.subscribe(SubscribeLocks()))

    async def _read(self) -> Event | None:
        return _typed(*await self._client.event())


def _typed(method: str, params: list[object]) -> Event | None:
    """Convert an event; None: only a newer wconfd has it."""
    match method, params:
        case "locksChanged", [rows]:
            return HoldingsChanged(structure(rows, tuple[Holdings, ...], LOCKS_CHANGED))
        case "configChanged", [int() as serial, bool() as filters_changed]:
            return ConfigChanged(serial, filters_changed)
        case "ghostsChanged", [orphans]:
            return OrphansChanged(structure(orphans, tuple[OrphanedLocks, ...], ORPHANS_CHANGED))
        case "keptChanged", [str() as what]:
            return KeptChanged(what)
        case (("locksChanged" | "configChanged" | "ghostsChanged" | "keptChanged"), _):
            raise ProtocolError(f"{method} came with parameters of another shape: {params!r}")
        case _:
            return None

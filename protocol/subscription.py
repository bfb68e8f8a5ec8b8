"""Changes in wconfd as they happen: a subscription that survives wconfd's restarts.

Source: DESIGN section 8.
"""

from collections.abc import Callable
from pathlib import Path

import attrs

from common.errors import ProtocolError
from common.locks import Owner
from common.wire import structure
from protocol.client import Client
from protocol.lastingfeed import LastingFeed, nothing
from protocol.wconfd.ghosts import GHOSTS_CHANGED, Ghost
from protocol.wconfd.locks import Owned
from protocol.wconfd.subscribe import LOCKS_CHANGED, Holdings, Subscribe


@attrs.frozen
class Snapshot:
    """The state at the beginning of a connection; it replaces all earlier knowledge."""

    holdings: tuple[Holdings, ...]
    config_serial: int


@attrs.frozen
class LocksChanged:
    """Owners whose holdings or pending requests changed, each with all its present holdings; later rows win."""

    holdings: tuple[tuple[Owner, tuple[Owned, ...]], ...]


@attrs.frozen
class ConfigChanged:
    serial: int
    # whether filter rules, or limits of jobs, changed
    filters_changed: bool


@attrs.frozen
class GhostsChanged:
    """All ghosts, after a change of them. A snapshot does not tell them: ask for them by `ListGhosts` after it."""

    ghosts: tuple[Ghost, ...]


@attrs.frozen
class KeptChanged:
    """Schedules or resources have changed; a snapshot does not tell them: read them after it."""

    # `protocol.wconfd.subscribe.SCHEDULES` or `RESOURCES`
    what: str


Event = Snapshot | LocksChanged | ConfigChanged | GhostsChanged | KeptChanged


class WconfdEvents:
    """Snapshots and changes, in order; for one task.

    A change that is seen is durable. A snapshot comes first, and again after each reconnection:
    wconfd was restarted, or this subscriber was too slow.

    Args: lost: called when wconfd is away, once until it is back.
    """

    def __init__(self, path: Path, lost: Callable[[], None] = nothing) -> None:
        self._client = Client(path, daemon="the lock daemon")
        self._feed = LastingFeed[Event](self._begin, self._read, lost)

    async def next(self) -> Event:
        """Wait for the next event, however long wconfd is away.

        Raises: Denied, RemoteError: this caller may not subscribe, or that wconfd cannot serve it.
        Cancellation: safe; the next call begins with a snapshot.
        """
        return await self._feed.next()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _begin(self) -> Snapshot:
        return Snapshot(*await self._client.subscribe(Subscribe()))

    async def _read(self) -> Event | None:
        return _typed(*await self._client.event())


def _typed(method: str, params: list[object]) -> Event | None:
    """Convert an event; None: only a newer wconfd has it."""
    match method, params:
        case "locksChanged", [rows]:
            return LocksChanged(structure(rows, tuple[Holdings, ...], LOCKS_CHANGED))
        case "configChanged", [int() as serial, bool() as filters_changed]:
            return ConfigChanged(serial, filters_changed)
        case "ghostsChanged", [ghosts]:
            return GhostsChanged(structure(ghosts, tuple[Ghost, ...], GHOSTS_CHANGED))
        case "keptChanged", [str() as what]:
            return KeptChanged(what)
        case (("locksChanged" | "configChanged" | "ghostsChanged" | "keptChanged"), _):
            raise ProtocolError(f"{method} came with parameters of another shape: {params!r}")
        case _:
            return None

"""Whether this daemon and those behind it are well, for everybody; and the index of /3.

Source: DESIGN section 15.
"""

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from common.errors import GantryError, Unavailable
from common.nodes.nodeplace import why_not_master
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.program import release
from daemons.rapid.backend import Backend
from daemons.rapid.calls import Asked, Call, Given
from protocol.luxi.cluster import QueryConfigValues

_LUXID_S: Final = 2.0


@attrs.frozen
class Health:
    """The state of the HTTP interface on one node."""

    # whether this node serves: it is the master, and its luxid replies
    ok: bool
    version: str
    is_master: bool
    # name of the master; null: luxid does not tell it, and this node does not know it
    master: str | None
    # why this node does not serve; null: it does
    reason: str | None
    # requests under way; those of them that only wait, or whose reply is a stream; calls to luxid
    requests: int
    waiting: int
    calls: int


@attrs.frozen
class IndexEntry:
    verb: str
    path: str
    summary: str


@attrs.frozen
class Index:
    version: str
    calls: tuple[IndexEntry, ...]


class HealthHandlers:
    """Args: load: how many requests are under way, and how many of them wait."""

    def __init__(self, settings: Settings, backend: Backend, load: Callable[[], tuple[int, int]]) -> None:
        self._settings = settings
        self._backend = backend
        self._load = load

    async def health(self, _: Asked) -> Given:
        why = await in_thread(why_not_master, self._settings)
        master, reason = (None, why) if why is not None else await self._ask_luxid()
        requests, waiting = self._load()
        health = Health(
            reason is None, release(), why is None, master, reason, requests, waiting, self._backend.luxid.busy
        )
        return Given(health, 200 if health.ok else 503)

    async def _ask_luxid(self) -> tuple[str | None, str | None]:
        """The name of the master, or why luxid does not tell it."""
        try:
            with trio.fail_after(_LUXID_S):
                (master,) = await self._backend.luxid.call(QueryConfigValues(("master_node",)))
            return str(master), None
        except trio.TooSlowError:
            return None, f"luxid gave no answer within {_LUXID_S:g} s"
        except Unavailable:
            return None, "luxid does not answer"
        except GantryError as error:
            return None, error.message


def rows(to: HealthHandlers) -> Sequence[Call]:
    """The rows of health."""
    return [
        Call(
            "GET",
            "/3/health",
            to.health,
            "Tell whether this node serves, and who is the master; 503 if it does not.",
            gives=Health,
            errors=(503,),
            tag="health",
        ),
    ]


def index_row(table: Sequence[Call]) -> Call:
    """The row of /3, which lists all rows below it."""
    entries = (IndexEntry(call.verb, call.path, call.summary) for call in table if call.path.startswith("/3/"))
    index = Index(release(), tuple(entries))

    async def list_calls(_: Asked) -> Index:
        return index

    return Call("GET", "/3", list_calls, "List the calls of this interface.", gives=Index, tag="health")

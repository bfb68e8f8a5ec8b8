"""Whether this daemon and those behind it are well, and who is the master; and the index of /3.

Source: DESIGN sections 14 and 15.
"""

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from common.errors import GantryError, NotFound, TooBusy, Unavailable
from common.system.program import release
from common.webaccess.rights import Right
from daemons.rapid.backend import Backend
from daemons.rapid.calls import Asked, Call, Given
from daemons.rapid.load import Load
from daemons.rapid.mastership import Mastership
from protocol.keeperd import ClusterView, ShowCluster
from protocol.luxi.queries import QueryConfigValues

_LUXID_S: Final = 2.0


@attrs.frozen
class Health:
    """The state of the HTTP interface on one node."""

    # whether this node serves: it is the master, and its luxid replies
    ok: bool
    version: str
    is_master: bool
    # name of the master; null: this node does not know it
    master: str | None
    # why this node does not serve; null: it does
    reason: str | None
    # connections of clients
    connections: int
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


@attrs.frozen
class HealthHandlers:
    _mastership: Mastership
    _backend: Backend
    _load: Load
    has_lease: bool = False

    async def health(self, _: Asked) -> Given:
        standing = await self._mastership.standing()
        reason = standing.why_not or await self._why_silent()
        health = Health(
            ok=reason is None,
            version=release(),
            is_master=standing.why_not is None,
            master=standing.master,
            reason=reason,
            connections=self._load.connections,
            requests=self._load.requests,
            waiting=self._load.waiting,
            calls=self._backend.luxid.busy,
        )
        return Given(health, 200 if health.ok else 503)

    async def get_mastership(self, _: Asked) -> ClusterView:
        """The mastership as keeperd of this node knows it.

        Raises: NotFound: there is no lease. As `ConnectionPool.call`.
        """
        if not self.has_lease:
            raise NotFound("this cluster has no lease: its master is moved by hand; '/3/health' tells who it is")
        return await self._backend.keeperd.call(ShowCluster())

    async def _why_silent(self) -> str | None:
        """Why luxid does not reply; None: it does."""
        try:
            with trio.fail_after(_LUXID_S):
                await self._backend.luxid.call_once(QueryConfigValues(()))
        except trio.TooSlowError:
            return f"luxid gave no answer within {_LUXID_S:g} s"
        except TooBusy as error:
            return error.message
        except Unavailable:
            return "luxid does not answer"
        except GantryError as error:
            return error.message
        return None


def rows(to: HealthHandlers) -> Sequence[Call]:
    """The rows of health, and of the mastership."""
    return [
        Call(
            "GET",
            "/3/health",
            to.health,
            "Tell whether this node serves, and who is the master; 503 if it does not.",
            name="getHealth",
            gives=Health,
            also=(503,),
            tag="health",
            is_everywhere=True,
        ),
        Call(
            "GET",
            "/3/mastership",
            to.get_mastership,
            "Show who is the master, the candidates with what they lack, and the members of etcd.",
            name="getMastership",
            gives=ClusterView,
            tag="cluster",
            rights=(Right.CLUSTER_READ,),
            errors=(404,),
            only_waits=True,
            is_everywhere=True,
        ),
    ]


def index_row(table: Sequence[Call]) -> Call:
    """The row of /3, which lists all rows below it."""
    entries = (IndexEntry(call.verb.upper(), call.path, call.summary) for call in table if call.path.startswith("/3/"))
    index = Index(release(), tuple(entries))

    async def list_calls(_: Asked) -> Index:
        return index

    return Call(
        "GET",
        "/3",
        list_calls,
        "List the calls of this interface.",
        name="listCalls",
        gives=Index,
        tag="health",
        is_everywhere=True,
    )

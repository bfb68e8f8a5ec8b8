"""The page of the nodes."""

from collections.abc import Iterable
from typing import Final

import attrs
import trio

from common.errors import GantryError
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from common.webaccess.rights import Right
from common.wire import structure
from common.words.filters.jobfilter import statuses_filter
from daemons.rapid.calls import Asked, Daemons
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow
from daemons.rapid.page.views.boards import NodePage
from daemons.rapid.page.views.nodeview import (
    FIELDS,
    LIVE_FIELD,
    RUNNING_FIELDS,
    ConfiguredNode,
    NodesNow,
    node_lines,
)
from daemons.rapid.resources.joblists import page_of_jobs
from protocol.luxi.daemon import QUEUE_VERDICTS, QueueVerdict
from protocol.luxi.queries import QUEUE_LAGS, Query, QueryConfigValues, QueueLag
from protocol.wconfd.config import ListNodesBehind, NodeBehind

# running jobs that are looked at
RUNNING: Final = 500
# seconds to wait for the daemons of all nodes
_LIVE_S: Final = 3.0
# seconds after which the nodes are asked again: no event tells of a node that falls silent
_REREAD_S: Final = 5.0
_RUNNING_NOW: Final = Expression.from_wire(statuses_filter(("running", "canceling")))


async def read(asked: Asked, now: ClusterNow) -> NodesNow:
    daemons = asked.daemons
    lags, verdicts = await daemons.luxid(QueryConfigValues((QUEUE_LAGS, QUEUE_VERDICTS)))
    found = await daemons.luxid(Query(QueryKind.NODE, FIELDS))
    is_copied = lags is not None
    behind, unknown = await _behind(daemons) if is_copied else ((), "")
    return NodesNow(
        tuple(structure(dict(zip(_NODE_ROW, values, strict=True)), ConfiguredNode) for values in found.values()),
        is_copied,
        await _answering(daemons) if is_copied else frozenset(),
        {each.node: each for each in structure(lags or (), tuple[QueueLag, ...], QUEUE_LAGS)},
        {each.node: each for each in structure(verdicts or (), tuple[QueueVerdict, ...], QUEUE_VERDICTS)},
        {each.name: each for each in behind},
        unknown,
        await page_of_jobs(daemons, RUNNING_FIELDS, _RUNNING_NOW, limit=RUNNING)
        if may(asked, Right.JOBS_READ)
        else None,
    )


_NODE_ROW: Final = tuple(each.name for each in attrs.fields(ConfiguredNode))


async def _answering(daemons: Daemons) -> frozenset[str] | None:
    """The nodes whose daemons reply; None: that is not known in time."""
    with trio.move_on_after(_LIVE_S):
        found = await daemons.luxid(Query(QueryKind.NODE, ("name", LIVE_FIELD)))
        return frozenset(str(name) for name, value in found.values() if value is not None)
    return None


async def _behind(daemons: Daemons) -> tuple[Iterable[NodeBehind], str]:
    """What nodes lack of the configuration, or why that is not known."""
    try:
        return await daemons.wconfd(ListNodesBehind()), ""
    except GantryError as error:
        # the rest of the page says enough
        return (), error.message


BOARD: Final[Board[NodesNow]] = Board(
    "nodes",
    "/ui/nodes",
    (Right.CLUSTER_READ,),
    "The page of the nodes, their daemons, their copies, and what runs there.",
    ("health", "nodes"),
    read,
    lambda facts, _: NodePage(node_lines(facts)),
    lambda _: "Nodes",
    lambda _: Interest(),
    reread_s=_REREAD_S,
)

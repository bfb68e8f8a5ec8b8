"""The page of the graph of waits: around some jobs, or among all that wait."""

import re
from typing import Final

import attrs

from common.webaccess.rights import Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow, wait_graph
from daemons.rapid.page.views.boards import GraphPage
from daemons.rapid.page.views.graphview import MOST, NOTHING, ZOOMS, Shown, graph_view
from protocol.rapid.events import Topic

# shapes that an address may unfold, and characters of one
_UNFOLDED: Final = 100
_LONGEST: Final = 1000
# jobs around which a graph is
_JOBS: Final = 100
_ID: Final = re.compile(r"(?:job/)?([1-9][0-9]{0,17})")


async def read(asked: Asked, now: ClusterNow) -> GraphPage:
    query = asked.http.query_params
    jobs = " ".join(query.getlist("job")).replace(",", " ").strip()
    found = [_ID.fullmatch(word) for word in jobs.split()]
    zoom = query.get("zoom", "")
    shown = Shown(
        tuple(dict.fromkeys(int(each[1]) for each in found if each)),
        tuple(dict.fromkeys(each for each in query.getlist("unfold")[:_UNFOLDED] if 0 < len(each) <= _LONGEST)),
        next((each for each in ZOOMS if str(each) == zoom), 100),
    )
    wrong = "" if all(found) else f"ids of jobs are numbers; got {jobs!r:.200}"
    if len(shown.job_ids) > _JOBS:
        wrong = wrong or f"a graph is around at most {_JOBS} jobs"
    if wrong:
        return GraphPage(graph_view(NOTHING, attrs.evolve(shown, job_ids=())), jobs, wrong)
    graph = await wait_graph(asked.daemons, shown.job_ids, MOST, with_rules=may(asked, Right.FILTERS_READ))
    return GraphPage(graph_view(graph, shown), jobs)


BOARD: Final[Board[GraphPage]] = Board(
    "graph",
    "/ui/graph",
    (Right.JOBS_READ,),
    "The page of who waits for whom.",
    ("health", "graph"),
    read,
    lambda page, _: page,
    lambda _: "Who waits for whom",
    lambda _: Interest.of(Topic.JOBS, Topic.REASONS, Topic.LOCKS),
)

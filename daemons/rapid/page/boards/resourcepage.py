"""The page of counted resources."""

from typing import Final

from common.webaccess.rights import Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow
from daemons.rapid.page.views.boards import ResourcePage
from daemons.rapid.page.views.things import resource_line
from protocol.luxi.queue import ReadResourceUse
from protocol.rapid.events import Topic

# resources that are shown
ROWS: Final = 200


async def read(asked: Asked, now: ClusterNow) -> ResourcePage:
    text = asked.http.query_params.get("name", "").strip()
    uses = await asked.daemons.luxid(ReadResourceUse())
    chosen = [each for each in uses if text in each.resource.key]
    return ResourcePage(text, tuple(map(resource_line, chosen[:ROWS])), len(uses))


BOARD: Final[Board[ResourcePage]] = Board(
    "resources",
    "/ui/resources",
    (Right.JOBS_READ,),
    "The page of counted resources.",
    ("health", "resources"),
    read,
    lambda page, _: page,
    lambda _: "Resources",
    lambda _: Interest.of(Topic.JOBS, Topic.REASONS),
)

"""The page of counted resources."""

from typing import Final

import attrs

from common.webaccess.rights import Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow
from daemons.rapid.page.views.boards import ResourcePage
from daemons.rapid.page.views.things import resource_line
from protocol.luxi.queue import ReadResourceUse, ResourceUse
from protocol.rapid.events import Topic

# resources that are shown
ROWS: Final = 200


@attrs.frozen
class ResourcePageFacts:
    text: str
    uses: tuple[ResourceUse, ...]
    count: int


BOARD: Final[Board[ResourcePageFacts]] = Board(
    "resources",
    "/ui/resources",
    (Right.JOBS_READ,),
    "The page of counted resources.",
    ("health", "resources"),
    lambda asked, now: read(asked, now),
    lambda facts, _: ResourcePage(facts.text, tuple(map(resource_line, facts.uses)), facts.count),
    lambda _: "Resources",
    lambda _: Interest.of(Topic.JOBS, Topic.REASONS),
)


async def read(asked: Asked, now: ClusterNow) -> ResourcePageFacts:
    text = asked.http.query_params.get("name", "").strip()
    uses = await asked.daemons.luxid(ReadResourceUse())
    chosen = [each for each in uses if text in each.resource.key]
    return ResourcePageFacts(text, tuple(chosen[:ROWS]), len(uses))

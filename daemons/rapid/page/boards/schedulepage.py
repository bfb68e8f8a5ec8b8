"""The page of schedules."""

from typing import Final

import attrs

from common.webaccess.rights import Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow
from daemons.rapid.page.views.boards import SchedulePage
from daemons.rapid.page.views.things import schedule_line
from protocol.luxi.queue import ListSchedules, ScheduleView
from protocol.rapid.events import Topic

# schedules that are shown
ROWS: Final = 200


@attrs.frozen
class SchedulePageFacts:
    text: str
    views: tuple[ScheduleView, ...]
    count: int
    may_change: bool


async def read(asked: Asked, now: ClusterNow) -> SchedulePageFacts:
    text = asked.http.query_params.get("name", "").strip()
    views = await asked.daemons.luxid(ListSchedules())
    chosen = [each for each in views if text in each.schedule.name]
    return SchedulePageFacts(text, tuple(chosen[:ROWS]), len(views), may(asked, Right.JOBS_SUBMIT))


def view(facts: SchedulePageFacts, now: float) -> SchedulePage:
    return SchedulePage(
        facts.text, tuple(schedule_line(each, now) for each in facts.views), facts.count, facts.may_change
    )


BOARD: Final[Board[SchedulePageFacts]] = Board(
    "schedules",
    "/ui/schedules",
    (Right.JOBS_READ,),
    "The page of schedules.",
    ("health", "schedules"),
    read,
    view,
    lambda _: "Schedules",
    # a run shows as a job
    lambda _: Interest.of(Topic.JOBS),
)

"""One event stream for one open page.

Theory. The stream draws the page's view when something on it may have changed, and once in `TICK_S` in any case, as
durations grow and curves move; then it asks nobody, and draws what it knows. After each reading it pauses for at least
`LEAST_S`, and for `SHARE` times as long as the reading took: so a page costs a bounded part of luxid, however large the
queue is. A browser that comes back gets all parts anew.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import attrs
import trio
from starlette.responses import Response

from common.errors import GantryError
from daemons.rapid.calls import Asked
from daemons.rapid.events.hub import Hub
from daemons.rapid.page.boards.board import Board, Following
from daemons.rapid.page.live.parts import Interest, appended, event, partial, partials
from daemons.rapid.page.reading import ClusterNow, cluster_now, read_on, read_piece, times_of
from daemons.rapid.page.replies import HEADERS
from daemons.rapid.page.templates import draw
from daemons.rapid.page.terminal import LastLines, LinePosition, OutputLine, Terminal
from daemons.rapid.page.views.frame import Frame, Freshness, HealthLine, Silence
from daemons.rapid.page.views.outputview import TAIL, Times, appended_rows, tail_html
from daemons.rapid.streams import Push, PushedStream

F = TypeVar("F")
# seconds between two updates at least
LEAST_S: Final = 0.25
# seconds after which durations are drawn anew
TICK_S: Final = 2.0
SHARE: Final = 4.0
# seconds that one call waits for more output
_OUTPUT_S: Final = 60.0
# seconds until a failed reading is tried again
_RETRY_S: Final = 2.0


@attrs.define
class OpenPage(Generic[F]):
    """An open page."""

    asked: Asked
    board: Board[F]
    # None: no output is followed
    following: Following | None
    # what stands around it, with this line about the cluster
    frame: Callable[[HealthLine], Frame]
    hub: Hub
    # None: luxid answers
    silence: Callable[[], Silence | None]
    # ends when the page may not be shown any more
    over: Callable[[], Awaitable[None]]
    # when what it shows was read, in seconds since the epoch
    read_at: float = attrs.field(factory=time.time)


def live_response(watched: OpenPage[F]) -> Response:
    """The reply that goes on until the browser goes, or the page may not be shown any more."""

    async def run(push: Push) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_follow_view, watched, push)
            nursery.start_soon(_tell_freshness, watched, push)
            if watched.following is not None:
                nursery.start_soon(_follow_output, watched.asked, watched.following, push)
            await watched.over()
            nursery.cancel_scope.cancel()

    return PushedStream(
        run, {**HEADERS, "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store"}
    )


async def _follow_view(watched: OpenPage[F], push: Push) -> None:
    with watched.hub.following():
        await watched.hub.ready()
        await _follow_hub(watched, push)


async def _follow_hub(watched: OpenPage[F], push: Push) -> None:
    sent: dict[str, str] = {}
    serial = watched.hub.log.last
    now, facts, took_s = await _read(watched)
    read_at = trio.current_time()
    while True:
        drawn = _drawn(watched, now, facts)
        if changes := "".join(partials(sent, drawn)):
            await push(event(changes))
            sent = drawn
        await trio.sleep(max(LEAST_S, took_s * SHARE))
        is_concerned = await _until_concerned(watched.hub, serial, watched.board.interest(facts))
        if is_concerned or trio.current_time() - read_at >= watched.board.reread_s:
            serial = watched.hub.log.last
            now, facts, took_s = await _read(watched)
            read_at = trio.current_time()


async def _tell_freshness(watched: OpenPage[F], push: Push) -> None:
    """Tell how old the page is, again and again: a page that hears nothing is cut off, and its script says so."""
    while True:
        silence, now = watched.silence(), time.time()
        fresh = Freshness(watched.read_at, True, silence, 0.0 if silence is None else max(now - silence.since, 0.0))
        await push(event(partial("fresh", draw("parts/fresh", fresh=fresh).strip())))
        await trio.sleep(TICK_S)


async def _until_concerned(hub: Hub, serial: int, interest: Interest) -> bool:
    """Wait for news of what the page shows; False: there was none for a while."""
    with trio.move_on_after(TICK_S):
        while True:
            if interest.concerns(hub.log.after(serial)):
                return True
            serial = hub.log.last
            await hub.wait(serial, TICK_S)
    return False


async def _read(watched: OpenPage[F]) -> tuple[ClusterNow, F, float]:
    """What the page shows now, and how long it took to ask for it; again and again until luxid tells it."""
    while True:
        began = trio.current_time()
        try:
            now = await cluster_now(watched.asked.daemons)
            facts = await watched.board.read(watched.asked, now)
            watched.read_at = time.time()
            return now, facts, trio.current_time() - began
        except GantryError:
            # the page stays as it is; luxid may be starting, or the job be gone
            await trio.sleep(_RETRY_S)


def _drawn(watched: OpenPage[F], now: ClusterNow, facts: F) -> dict[str, str]:
    frame = watched.frame(now.health)
    view = watched.board.view(facts, time.time())
    return {part: draw(f"parts/{part}", view=view, frame=frame).strip() for part in watched.board.parts}


async def _follow_output(asked: Asked, following: Following, push: Push) -> None:
    """Send what comes, until the job has ended."""
    terminal, shown = Terminal(following.place), ""
    while True:
        try:
            piece = await read_piece(asked.daemons, following.job_id, terminal.end, _OUTPUT_S)
        except GantryError:
            await trio.sleep(_RETRY_S)
            continue
        began, before = trio.current_time(), terminal.place
        ended = await read_on(terminal, piece)
        times = await _times(asked, following, [*ended.lines, *([terminal.tail] if terminal.tail else [])])
        tail = str(tail_html(terminal.tail, times))
        if ended.lines or tail != shown:
            await push(event(_output(terminal, ended, before, tail, times), f"output-{terminal.place}"))
            shown = tail
        if piece.is_end:
            return
        # a job may print line by line, and faster than anybody reads
        await trio.sleep(max(LEAST_S, (trio.current_time() - began) * SHARE))


async def _times(asked: Asked, following: Following, lines: Sequence[OutputLine]) -> Times | None:
    """When these lines came; None: that is not shown."""
    if not following.has_times:
        return None
    try:
        return await times_of(asked.daemons, following.job_id, lines)
    except GantryError:
        # the lines are worth more than their times
        return {}


def _output(terminal: Terminal, ended: LastLines, before: LinePosition, tail: str, times: Times | None) -> str:
    """The elements for what has come; the line that was being written is a row of the others first."""
    changes = [partial(TAIL, tail)]
    for each in appended_rows(ended.lines, before, terminal.place.group, is_all=bool(ended.left_out), times=times):
        changes.append(appended(each.target, str(each.rows), is_all=each.is_all))
    return "".join(changes)

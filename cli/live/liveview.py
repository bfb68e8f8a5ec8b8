"""A live view of jobs on a terminal: a line for each, and how far all of it is.

Source: DESIGN sections 10 (rich, imported when a terminal needs it) and 13, "Fleet".
"""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli.live.fleet import Fleet, FleetJob
from cli.live.following import Event, JobUpdate, follow_jobs
from cli.live.waitreasons import WAITING, WaitReasons
from common.printable import printable
from common.queue.jobs import FINAL_NAMES
from common.words.fields import FIELDS, job_title
from protocol.luxi.jobs import OutputStream

_STYLES: Final = {"running": "cyan", "success": "green", "error": "red", "canceled": "yellow", "canceling": "yellow"}
_STATUS_WIDTH: Final = max(map(len, FINAL_NAMES))
_TIME_WIDTH: Final = 6
_NODE_WIDTH: Final = 24
_BAR_WIDTH: Final = 20
_REFRESH_PER_SECOND: Final = 4
# lines of the frame: header, counts, and one for the cursor
_FRAME_LINES: Final = 3
# half of the spaces between the columns
_GAPS: Final = 4
# which lines are left out last where there is no room for all
_RANKS: Final = {"running": 0, "canceling": 0, "error": 1, "waiting": 2, "queued": 3, "success": 5}


def show_live(fleet: Fleet, streams: Sequence[OutputStream] = ()) -> None:
    """Show the jobs until all have ended; the last state stays on the screen.

    Raises: as `JobFeed.next_event`.
    """
    console = Console()
    view = LiveView(console, fleet)
    with (
        closing(follow_jobs(list(fleet.jobs), streams, hinted=view.reasons.hinted)) as feed,
        Live(get_renderable=view.render, console=console, refresh_per_second=_REFRESH_PER_SECOND),
    ):
        while not feed.is_done:
            event = feed.next_event(timeout_s=view.reasons.due_s(time.monotonic()))
            if event is not None:
                view.note(event)
            view.update_reasons()


class LiveView:
    """The lines that fit on the screen, as rich shows them: those of a fleet begin with node or values."""

    def __init__(self, console: Console, fleet: Fleet) -> None:
        self._console = console
        self._fleet = fleet
        # in columns; it only grows, so that the table stands still
        self._longest_title = 0
        self.reasons = WaitReasons()

    def note(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, JobUpdate):
            if self._fleet.jobs[event.job_id].status != event.status:
                self.reasons.status_changed()
            self._longest_title = max(self._longest_title, cell_len(printable(job_title(event.values))))
        self._fleet.note(event)

    def update_reasons(self) -> None:
        """Ask again why jobs wait that are shown, if that is due."""
        self.reasons.update(time.monotonic(), [job.job_id for job in self._visible() if job.status in WAITING])

    def render(self) -> RenderableType:
        names, visible = self._fleet.names, self._visible()
        table = Table(box=None, pad_edge=False, header_style="", expand=True)
        # the narrow columns keep their width on a narrow terminal
        if names:
            width = min(self._fleet.name_width, _NODE_WIDTH)
            table.add_column(" ".join(names).upper(), no_wrap=True, overflow="ellipsis", min_width=width)
        table.add_column("JOB" if names else "ID", justify="right", no_wrap=True, min_width=self._id_width())
        table.add_column("STATUS", no_wrap=True, min_width=_STATUS_WIDTH)
        table.add_column("TIME", justify="right", no_wrap=True, min_width=_TIME_WIDTH)
        if not names:
            table.add_column("SUMMARY", no_wrap=True, overflow="ellipsis", width=self._title_width())
        table.add_column("NOW", no_wrap=True, overflow="ellipsis", ratio=1)
        for job in visible:
            table.add_row(*self._cells(job))
        caption = self._progress(len(self._fleet.jobs) - len(visible)) if names else self._counts()
        table.caption = Text(caption, "dim", no_wrap=bool(names))
        table.caption_justify = "left"
        return table

    def _id_width(self) -> int:
        return max(len(str(job_id)) for job_id in self._fleet.jobs)

    def _title_width(self) -> int:
        """What the longest title takes, but at most half of what the narrow columns leave: reasons need room, too."""
        room = self._console.width - _STATUS_WIDTH - _TIME_WIDTH - self._id_width()
        return max(min(self._longest_title, room // 2 - _GAPS), len("SUMMARY"))

    def _visible(self) -> Sequence[FleetJob]:
        """All lines if they fit; else first those that run or failed."""
        jobs = list(self._fleet.jobs.values())
        room = max(self._console.height - _FRAME_LINES, 1)
        if len(jobs) <= room:
            return jobs
        chosen = set(sorted(jobs, key=lambda job: _RANKS.get(job.status, 4))[:room])
        return [job for job in jobs if job in chosen]

    def _cells(self, job: FleetJob) -> Sequence[Text]:
        elapsed = FIELDS["time"].show(job.row, time.time()) if job.row is not None else ""
        cells = [Text(str(job.job_id)), Text(job.status, _STYLES.get(job.status, "")), Text(elapsed)]
        reason = self.reasons.of(job.job_id) if job.status in WAITING else ""
        now = Text(reason or job.last_word)
        if self._fleet.names:
            return [Text(job.element), *cells, now]
        return [*cells, Text(printable(job_title(job.row)) if job.row is not None else ""), now]

    def _counts(self) -> str:
        counts = Counter(job.status for job in self._fleet.jobs.values() if job.row)
        return ", ".join(f"{count} {status}" for status, count in counts.items())

    def _progress(self, hidden: int) -> str:
        ended, size = self._fleet.ended_count, len(self._fleet.jobs)
        filled = _BAR_WIDTH * ended // size
        bar = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}]"
        more = f"; {hidden} not shown" if hidden else ""
        return f"{bar} {ended} of {size} {self._fleet.noun}: {self._fleet.counts}{more}"

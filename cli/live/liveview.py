"""A live view of several jobs on a terminal: state, reason for waiting, time, last log message.

Source: DESIGN section 10 (rich, imported when a terminal needs it).
"""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Final

import attrs
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli.live.fleet import Fleet, FleetJob
from cli.live.following import JobUpdate, follow_jobs
from cli.live.waitreasons import WAITING, WaitReasons
from cli.tables import NOTHING
from common.printable import printable
from common.queue.jobs import FINAL_NAMES
from common.words.fields import FIELDS, JobRow, job_title
from common.words.logs import message_text
from protocol.luxi.jobs import OutputStream

_STYLES: Final = {"running": "cyan", "success": "green", "error": "red", "canceled": "yellow", "canceling": "yellow"}
_STATUS_WIDTH: Final = max(map(len, FINAL_NAMES))
_TIME_WIDTH: Final = 6
_REFRESH_PER_SECOND: Final = 4
# lines of the frame: header, counts, and one for the cursor
_FRAME_LINES: Final = 3
# half of the spaces between the columns
_GAPS: Final = 4


def show_live(job_ids: Sequence[int]) -> None:
    """Show the jobs until all have ended; the last state stays on the screen.

    Raises: as `JobFeed.next_event`.
    """
    console = Console()
    view = _View(console, job_ids)
    with (
        closing(follow_jobs(job_ids, hinted=view.reasons.hinted)) as followers,
        Live(get_renderable=view.render, console=console, refresh_per_second=_REFRESH_PER_SECOND),
    ):
        while not followers.is_done:
            event = followers.next_event(timeout_s=view.reasons.due_s(time.monotonic()))
            if isinstance(event, JobUpdate):
                view.note(event)
            view.update_reasons()


@attrs.define
class _JobLine:
    job_id: int
    row: JobRow | None = None
    last_word: str = ""

    @property
    def status(self) -> str:
        return (self.row["status"] if self.row else None) or NOTHING

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_NAMES


class _View:
    def __init__(self, console: Console, job_ids: Sequence[int]) -> None:
        self._console = console
        self._lines = {job_id: _JobLine(job_id) for job_id in job_ids}
        # in columns; it only grows, so that the table stands still
        self._longest_title = 0
        self.reasons = WaitReasons()

    def note(self, change: JobUpdate) -> None:
        line = self._lines[change.job_id]
        if line.status != change.status:
            self.reasons.status_changed()
        line.row = change.values
        self._longest_title = max(self._longest_title, cell_len(printable(job_title(line.row))))
        if change.log:
            line.last_word = message_text(change.log[-1])

    def update_reasons(self) -> None:
        """Ask again for the reasons for waiting, if that is due and a job waits."""
        waiting = [line.job_id for line in self._lines.values() if line.status in WAITING]
        self.reasons.update(time.monotonic(), waiting)

    def render(self) -> RenderableType:
        table = Table(box=None, pad_edge=False, header_style="", expand=True)
        # the narrow columns keep their width on a narrow terminal
        table.add_column("ID", justify="right", no_wrap=True, min_width=max(len(str(n)) for n in self._lines))
        table.add_column("STATUS", no_wrap=True, min_width=_STATUS_WIDTH)
        table.add_column("TIME", justify="right", no_wrap=True, min_width=_TIME_WIDTH)
        table.add_column("SUMMARY", no_wrap=True, overflow="ellipsis", width=self._title_width())
        table.add_column("NOW", no_wrap=True, overflow="ellipsis", ratio=1)
        for line in self._visible():
            table.add_row(*self._cells(line))
        table.caption = self._counts()
        table.caption_justify = "left"
        return table

    def _title_width(self) -> int:
        """What the longest title takes, but at most half of what the narrow columns leave: reasons need room, too."""
        room = self._console.width - _STATUS_WIDTH - _TIME_WIDTH - max(len(str(job_id)) for job_id in self._lines)
        return max(min(self._longest_title, room // 2 - _GAPS), len("SUMMARY"))

    def _visible(self) -> Sequence[_JobLine]:
        """All lines if they fit; else the unfinished jobs first."""
        lines = list(self._lines.values())
        room = max(self._console.height - _FRAME_LINES, 1)
        if len(lines) <= room:
            return lines
        chosen = sorted(lines, key=lambda line: line.is_final)[:room]
        return sorted(chosen, key=lambda line: line.job_id)

    def _cells(self, line: _JobLine) -> Sequence[Text]:
        status = Text(line.status, _STYLES.get(line.status, ""))
        if line.row is None:
            return (Text(str(line.job_id)), status)
        elapsed = FIELDS["time"].show(line.row, time.time())
        title = printable(job_title(line.row))
        reason = self.reasons.of(line.job_id) if line.status in WAITING else ""
        return (
            Text(str(line.job_id)),
            status,
            Text(elapsed),
            Text(title),
            Text(reason or line.last_word),
        )

    def _counts(self) -> Text:
        counts = Counter(line.status for line in self._lines.values() if line.row)
        return Text(", ".join(f"{count} {status}" for status, count in counts.items()), "dim")


# A live view of a fleet on a terminal: one line a job, and how far all of it is.
#
# Source: DESIGN sections 10 (rich, imported when a terminal needs it) and 13, "Fleet".


_NODE_WIDTH: Final = 24
_BAR_WIDTH: Final = 20


# which lines are left out last where there is no room for all
_RANKS: Final = {"running": 0, "canceling": 0, "error": 1, "waiting": 2, "queued": 3, "success": 5}


def show_fleet(fleet: Fleet, streams: Sequence[OutputStream]) -> None:
    """Show the jobs until all have ended; the last state stays on the screen.

    Raises: as `JobFeed.next_event`.
    """
    console = Console()
    view = FleetView(console, fleet)
    with (
        closing(follow_jobs(list(fleet.jobs), streams, hinted=view.reasons.hinted)) as followers,
        Live(get_renderable=view.render, console=console, refresh_per_second=_REFRESH_PER_SECOND),
    ):
        while not followers.is_done:
            event = followers.next_event(timeout_s=view.reasons.due_s(time.monotonic()))
            if event is not None:
                before = fleet.jobs[event.job_id].status
                if isinstance(event, JobUpdate) and before != event.status:
                    view.reasons.status_changed()
                fleet.note(event)
            view.update_reasons()


class FleetView:
    """The lines that fit on the screen, as rich shows them."""

    def __init__(self, console: Console, fleet: Fleet) -> None:
        self._console = console
        self._fleet = fleet
        self.reasons = WaitReasons()

    def update_reasons(self) -> None:
        """Ask again why jobs wait that are shown, if that is due."""
        self.reasons.update(time.monotonic(), [job.job_id for job in self._visible() if job.status in WAITING])

    def render(self) -> RenderableType:
        table = Table(box=None, pad_edge=False, header_style="", expand=True)
        # the narrow columns keep their width on a narrow terminal
        table.add_column(
            " ".join(self._fleet.names).upper(),
            no_wrap=True,
            overflow="ellipsis",
            min_width=min(self._fleet.name_width, _NODE_WIDTH),
        )
        table.add_column("JOB", justify="right", no_wrap=True, min_width=max(len(str(n)) for n in self._fleet.jobs))
        table.add_column("STATUS", no_wrap=True, min_width=_STATUS_WIDTH)
        table.add_column("TIME", justify="right", no_wrap=True, min_width=_TIME_WIDTH)
        table.add_column("NOW", no_wrap=True, overflow="ellipsis", ratio=1)
        visible = self._visible()
        for job in visible:
            table.add_row(*self._cells(job))
        table.caption = self._progress(len(self._fleet.jobs) - len(visible))
        table.caption_justify = "left"
        return table

    def _visible(self) -> Sequence[FleetJob]:
        """All lines if they fit; else first those that run or failed."""
        jobs = list(self._fleet.jobs.values())
        room = max(self._console.height - _FRAME_LINES, 1)
        if len(jobs) <= room:
            return jobs
        chosen = set(sorted(jobs, key=lambda job: _RANKS.get(job.status, 4))[:room])
        return [job for job in jobs if job in chosen]

    def _cells(self, job: FleetJob) -> Sequence[Text]:
        status = Text(job.status, _STYLES.get(job.status, ""))
        elapsed = FIELDS["time"].show(job.row, time.time()) if job.row is not None else ""
        reason = self.reasons.of(job.job_id) if job.status in WAITING else ""
        return Text(job.element), Text(str(job.job_id)), status, Text(elapsed), Text(reason or job.last_word)

    def _progress(self, hidden: int) -> Text:
        ended, size = self._fleet.ended_count, len(self._fleet.jobs)
        filled = _BAR_WIDTH * ended // size
        bar = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}]"
        more = f"; {hidden} not shown" if hidden else ""
        return Text(f"{bar} {ended} of {size} {self._fleet.noun}: {self._fleet.counts}{more}", "dim", no_wrap=True)

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

from cli.live.events import Change
from cli.live.followers import follow_jobs
from cli.live.waitreasons import WAITING, WaitReasons
from cli.tables import NOTHING
from common.printable import printable
from common.queue.jobs import FINAL_NAMES
from common.words.fields import FIELDS, Row, job_title
from common.words.loglines import message_text

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

    Raises: as `Follower.next_event`.
    """
    console = Console()
    view = _View(console, job_ids)
    with (
        closing(follow_jobs(job_ids, hinted=view.reasons.hinted)) as followers,
        Live(get_renderable=view.render, console=console, refresh_per_second=_REFRESH_PER_SECOND),
    ):
        while not followers.is_done:
            event = followers.next_event(timeout_s=view.reasons.due_s(time.monotonic()))
            if isinstance(event, Change):
                view.note(event)
            view.update_reasons()


@attrs.define
class _JobLine:
    job_id: int
    row: Row | None = None
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

    def note(self, change: Change) -> None:
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

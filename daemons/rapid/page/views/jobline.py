"""A job as a row of a list."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.queue.explanation import Reason
from common.queue.jobs import FINAL_NAMES
from common.words.ends import end_words
from common.words.fields import Row, field_of, shown_status, wire_fields
from common.words.outcome import Outcome
from common.words.times import bare_clock, to_seconds
from common.words.usernames import UserName
from daemons.rapid.page.views.links import Piece, linked
from daemons.rapid.page.views.termview import label_pieces
from daemons.rapid.page.views.whytext import why_short

# luxid's fields for a row
ROW_FIELDS: Final = (*wire_fields(("id", "status", "priority", "time", "user", "summary")), "name", "labels")


@attrs.frozen
class JobLine:
    job_id: int
    # as users read it
    status: str
    # its name, else what it runs
    what: str
    summary: str
    labels: tuple[Piece, ...]
    user: str
    priority: str
    received: str
    # how long it ran or has been running; before its start, how long it has been waiting
    time: str
    # why it waits, or why it did not succeed
    why: tuple[Piece, ...]
    is_final: bool


def job_line(
    row: Row, reasons: Sequence[Reason] | None, outcome: Outcome | None, now: float, user_name: UserName
) -> JobLine:
    """Args:
    reasons: why it does not run; None: it is not live, or was not asked for.
    outcome: of a job that has not succeeded; None: it has, or was not asked for.
    """
    received = to_seconds(row["received_ts"])
    ended = end_words(outcome, user_name) if outcome is not None else None
    return JobLine(
        row["id"],
        shown_status(row["status"]),
        row["name"] or ", ".join(row["summary"]),
        ", ".join(row["summary"]),
        label_pieces(row["labels"] or {}),
        row["user"] or "",
        field_of("priority").show(row, now),
        "" if received is None else bare_clock(received),
        field_of("time").show(row, now),
        linked(ended) if ended else why_short(reasons, now),
        row["status"] in FINAL_NAMES,
    )


def job_lines(
    rows: Sequence[Row],
    reasons: Mapping[int, Sequence[Reason] | None],
    outcomes: Mapping[int, Outcome],
    now: float,
    user_name: UserName,
) -> tuple[JobLine, ...]:
    """The rows in this order; jobs that do not exist are left out."""
    return tuple(
        job_line(row, reasons.get(row["id"]), outcomes.get(row["id"]), now, user_name) for row in rows if row["status"]
    )

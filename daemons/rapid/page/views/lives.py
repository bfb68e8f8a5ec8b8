"""The jobs of a timeline, from luxid's rows."""

import enum
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from common.queue.jobs import FINAL_NAMES
from common.words.fields import Row, field_of, shown_status, wire_fields
from common.words.times import to_seconds
from daemons.rapid.page.drawing.timeline import Life, Phase, Stretch

# luxid's fields for a bar
LIFE_FIELDS: Final = (
    *wire_fields(("id", "status", "time", "user", "summary", "opid", "name")),
    "opstart",
    "opexec",
    "opend",
)
# seconds that a window shows at least, and at most
SHORTEST_S: Final = 60.0
LONGEST_S: Final = 6 * 3600.0
_LABEL_LENGTH: Final = 60


class LaneBy(enum.Enum):
    """What the jobs of one lane have in common."""

    JOB = "job"
    OPCODE = "opcode"
    USER = "user"


def lives(rows: Sequence[Row], by: LaneBy, now: float) -> list[Life]:
    """The jobs as the timeline draws them; jobs that do not exist are left out."""
    made = (_life(row, by, now) for row in rows if row["status"])
    return [life for life in made if life.stretches]


def window(drawn: Sequence[Life], now: float, shortest_s: float = SHORTEST_S) -> tuple[float, float]:
    """The part of time that shows these jobs: (since, until)."""
    first = min((life.since for life in drawn), default=now)
    since = min(max(first, now - LONGEST_S), now - shortest_s)
    return since - (now - since) * 0.01, now


def _life(row: Row, by: LaneBy, now: float) -> Life:
    what = row.get("name") or ", ".join(row["summary"])
    status = shown_status(row["status"])
    told = f"job {row['id']}, {status} ({field_of('time').show(row, now)}): {what}"
    return Life(row["id"], _lane(row, by, what), told, status, tuple(_stretches(row, now)))


def _lane(row: Row, by: LaneBy, what: str) -> str:
    match by:
        case LaneBy.JOB:
            # what is in its brackets says enough of a command
            said = what.removeprefix("RUN_COMMAND(").removesuffix(")") if what.startswith("RUN_COMMAND(") else what
            return f"{row['id']} {said[:_LABEL_LENGTH]}"
        case LaneBy.OPCODE:
            return next(iter(row["opid"]), "").removeprefix("OP_")
        case LaneBy.USER:
            return row["user"] or "unknown"
    assert_never(by)


def _stretches(row: Row, now: float) -> Iterator[Stretch]:
    """It waits until an opcode is executed, and from the end of one opcode to the execution of the next."""
    at = to_seconds(row["received_ts"])
    if at is None:
        return
    is_ended = row["status"] in FINAL_NAMES
    ended = to_seconds(row["end_ts"]) if is_ended else None
    last = now if not is_ended else at if ended is None else ended
    for begun, done in zip(row["opexec"], row["opend"], strict=False):
        since, until = to_seconds(begun), to_seconds(done)
        if since is None:
            break
        until = last if until is None else until
        if since > at:
            yield Stretch(Phase.WAIT, at, since)
        yield Stretch(Phase.RUN, since, max(since, until))
        at = max(since, until)
    if at < last or (is_ended and row["start_ts"] is None):
        yield Stretch(Phase.WAIT, at, max(at, last))

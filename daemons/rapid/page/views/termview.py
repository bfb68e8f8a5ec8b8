"""What submitters and operators said of a job, and the tries of its commands, as pages show them."""

from collections.abc import Iterator, Mapping

import attrs

from common.words.fields import Row
from common.words.times import bare_clock, duration, precise_clock, to_seconds
from daemons.rapid.page.views.links import Piece, job_href, with_query


@attrs.frozen
class TryView:
    """A try that failed."""

    number: str
    # when it began and how long it took
    time: str
    why: str
    # when the next one begins
    next: str
    # page with the output of this try alone
    output: str


def label_pieces(labels: Mapping[str, str]) -> tuple[Piece, ...]:
    """The labels, each with the list of the jobs that have it, too."""
    return tuple(Piece(f"{key}={value}" if value else key, _having(key, value)) for key, value in labels.items())


def _having(key: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return with_query("/ui/jobs", [("where", f'label.{key}="{escaped}"')])


def term_facts(row: Row, now: float) -> Iterator[tuple[str, str]]:
    """(title, text) for each term but name and labels."""
    begin = to_seconds(row["begin_ts"])
    if begin is not None:
        told = bare_clock(begin)
        yield "begins", f"{told}, in {duration(begin - now)}" if begin > now else f"not before {told}"
    hold = row["hold"]
    if hold is not None:
        at = hold["at"]
        since = f" since {bare_clock(at)}" if isinstance(at, int | float) and at else ""
        why = f": {hold['why']}" if hold["why"] else ""
        yield "on hold", f"by {hold['by'] or 'somebody'}{since}{why}"
    if row["uses"]:
        yield "uses", ", ".join(f"{count} of {key}" for key, count in row["uses"].items())


def try_views(row: Row, place: int) -> tuple[TryView, ...]:
    """The tries of an opcode before the last one. Args: place: of the opcode, from 0."""
    tries = row["tries"] or ()
    return tuple(_try(row["id"], each) for each in (tries[place] if place < len(tries) else ()))


def _try(job_id: int, told: Mapping[str, object]) -> TryView:
    begin, end, after = (_number(told.get(name)) for name in ("start", "end", "next"))
    number = told.get("n")
    return TryView(
        str(number),
        f"{precise_clock(begin)}, {duration(end - begin)}",
        str(told.get("why", "")),
        bare_clock(after),
        with_query(job_href(job_id), [("try", number)]),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

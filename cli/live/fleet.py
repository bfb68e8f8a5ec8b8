"""A fleet while it is followed: its jobs, its lines where there is no terminal, and what came of it."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

import attrs

from cli.connection import open_luxid
from cli.live.following import JobUpdate, OutputPiece, follow_jobs
from cli.outcomes import fetch_outcomes
from cli.screen import remark, say, write
from cli.tables import NOTHING
from common.objects.kinds import short_names
from common.printable import defused, printable
from common.queue.jobs import FINAL_NAMES
from common.queue.reasons import NODE, Batch, batch_of_trail
from common.queue.terms import terms_of_trail
from common.words.fields import JobRow
from common.words.logs import log_text, message_text
from common.words.outcome import Outcome, end_words, result_text
from common.words.times import duration, to_seconds
from protocol.luxi.jobs import OutputStream

# The jobs of a fleet while they are followed: one for each node or value, with its state and its last lines of output.
#
# Source: DESIGN sections 13, "Fleet", and 16.


# lines of output of a job that are kept
LINES_KEPT: Final = 5
# characters of a line that are kept
_LINE_LENGTH: Final = 500
_WORDS: Final = (("success", "done"), ("error", "failed"), ("canceled", "canceled"), ("running", "running"))


class OutputTail:
    """The last lines of an output that comes in pieces; of a line that was overwritten the last state counts."""

    def __init__(self) -> None:
        self._whole: deque[str] = deque(maxlen=LINES_KEPT)
        self._begun: dict[OutputStream, str] = {}

    def take(self, text: str, stream: OutputStream) -> None:
        """Take the next piece of a stream."""
        *whole, begun = (self._begun.get(stream, "") + text).split("\n")
        # of an endless line only its end is of interest
        self._begun[stream] = begun[-_LINE_LENGTH:]
        self._whole.extend(line for each in whole if (line := _clean(each)))

    def lines(self) -> list[str]:
        """The last lines that are not empty, those that have not ended at the end."""
        begun = [line for each in self._begun.values() if (line := _clean(each))]
        return [*self._whole, *begun][-LINES_KEPT:]


def _clean(line: str) -> str:
    last = line.rstrip("\r").rpartition("\r")[2]
    return printable(last[:_LINE_LENGTH].replace("\t", " ")).strip()


@attrs.define(eq=False)
class FleetJob:
    job_id: int
    # its node or its values, as they are shown
    element: str
    row: JobRow | None = None
    output: OutputTail = attrs.field(factory=OutputTail)
    # last message of its log, until there is output
    message: str = ""

    @property
    def status(self) -> str:
        return (self.row["status"] if self.row else None) or NOTHING

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_NAMES

    @property
    def last_word(self) -> str:
        """The last line that its command wrote, or that its log has."""
        return next(reversed(self.output.lines()), "") or self.message


class Fleet:
    """All jobs of a fleet.

    Args:
        elements: job id -> its node or its values; in the order of the lines.
        batch_id: None: they are not of one batch.
        names: what the elements are: `node`, or the names of the values; empty: they are not shown.
    """

    def __init__(self, elements: Mapping[int, str], batch_id: str | None, names: Sequence[str] = (NODE,)) -> None:
        self.jobs = {job_id: FleetJob(job_id, element) for job_id, element in elements.items()}
        self.batch_id = batch_id
        self.names = tuple(names)

    @property
    def noun(self) -> str:
        """What its jobs are called: `nodes`, `jobs`."""
        return "nodes" if self.names == (NODE,) else "jobs"

    def note(self, event: JobUpdate | OutputPiece) -> FleetJob:
        """Take an event; returns its job as it is now."""
        job = self.jobs[event.job_id]
        if isinstance(event, OutputPiece):
            job.output.take(event.text, event.stream)
            return job
        job.row = event.values
        if event.log:
            job.message = message_text(event.log[-1])
        return job

    @property
    def ended_count(self) -> int:
        return sum(job.is_final for job in self.jobs.values())

    @property
    def name_width(self) -> int:
        return max(len(job.element) for job in self.jobs.values())

    @property
    def counts(self) -> str:
        """`3 done, 1 failed, 2 running, 4 to go`."""
        counts = Counter(job.status for job in self.jobs.values())
        told = [f"{count} {word}" for status, word in _WORDS if (count := counts.pop(status, 0))]
        return ", ".join([*told, *([f"{left} to go"] if (left := counts.total()) else [])])

    @property
    def lasted_s(self) -> float:
        """Seconds from the first begin to the last end; 0: none has begun."""
        rows = [job.row for job in self.jobs.values() if job.row is not None]
        begun = [at for row in rows if (at := to_seconds(row["start_ts"])) is not None]
        ended = [at for row in rows if (at := to_seconds(row["end_ts"])) is not None]
        return max(max(ended, default=0.0) - min(begun, default=0.0), 0.0) if begun else 0.0


def fleet_of(rows: Sequence[JobRow]) -> Fleet | None:
    """The fleet of these jobs; None: there is only one, or one of them has neither a node nor values.

    Args: rows: with `id` and `ops`.
    """
    if len(rows) < 2:
        return None
    batches = [_batch_of(row) for row in rows]
    ids = {None if batch is None else batch.batch_id for batch in batches}
    batch_id = ids.pop() if len(ids) == 1 else None
    nodes = {row["id"]: node for row in rows if (node := _node_of(row)) is not None}
    has_nodes = len(nodes) == len(rows)
    each = batches[0].each if batch_id is not None and batches[0] is not None else ()
    if not each:
        return Fleet(_short_of(nodes), batch_id) if has_nodes else None
    values = {row["id"]: _values_of(row, each) for row in rows}
    if has_nodes:
        short = _short_of(nodes)
        values = {job_id: (*told, short[job_id]) for job_id, told in values.items()}
    names = (*each, NODE) if has_nodes else each
    return Fleet({job_id: " ".join(told) for job_id, told in values.items()}, batch_id, names)


def _node_of(row: JobRow) -> str | None:
    nodes = (op.get("node") for op in row["ops"] or ())
    return next((node for node in nodes if isinstance(node, str)), None)


def _batch_of(row: JobRow) -> Batch | None:
    return batch_of_trail(row["ops"][0].get("reason")) if row["ops"] else None


def _values_of(row: JobRow, names: Sequence[str]) -> tuple[str, ...]:
    labels = terms_of_trail(row["ops"][0].get("reason")).labels if row["ops"] else {}
    return tuple(labels.get(name, NOTHING) for name in names)


def _short_of(nodes: Mapping[int, str]) -> dict[int, str]:
    short = _short(nodes.values())
    return {job_id: short[node] for job_id, node in nodes.items()}


def _short(names: Iterable[str]) -> dict[str, str]:
    """Each name without the domain, if they all have the same one and differ without it."""
    whole = list(dict.fromkeys(names))
    domains = {name.partition(".")[2] for name in whole}
    short = {name: (short_names(name) or [name])[0] for name in whole}
    is_clear = len(domains) == 1 and len(set(short.values())) == len(whole)
    return short if is_clear else {name: name for name in whole}


# What came of a fleet: who failed, with the last lines, and how many did what.
#
# Source: DESIGN section 13, "Fleet".


# what the text of a failed command ends with
_LAST_OUTPUT: Final = "; last output: "
# elements that a line names
_MOST_NAMED: Final = 12


def tell_summary(fleet: Fleet, outcomes: Sequence[Outcome]) -> None:
    """Tell on standard error what went wrong, and then on standard output the counts."""
    for outcome in outcomes:
        if outcome.status == "error":
            for line in _failure(fleet.jobs[outcome.job_id], outcome):
                remark(line)
    for why, elements in _canceled(fleet, outcomes).items():
        remark(f"{_listed(elements)}: {why}")
    say(_counts(fleet, outcomes))


def end_text(outcome: Outcome) -> str:
    """`3.2s  12:03 up 3 days`: how long it ran, and its last line, or why it failed."""
    took = "" if outcome.runtime_s is None else duration(outcome.runtime_s)
    words = _last_of_result(outcome) if outcome.is_success else _why(outcome)
    return printable(f"{took:>6}  {words}").rstrip()


def _last_of_result(outcome: Outcome) -> str:
    for result in reversed(outcome.results):
        tail = result.get("tail") if isinstance(result, Mapping) else None
        lines = [line for line in tail if str(line).strip()] if isinstance(tail, list) else []
        if lines:
            return str(lines[-1]).strip()
    return ""


def _why(outcome: Outcome) -> str:
    if outcome.status == "error":
        return result_text(_failed_result(outcome))
    return end_words(outcome, lambda _: None) or ""


def _failed_result(outcome: Outcome) -> object:
    failed = (result for result, state in zip(outcome.results, outcome.statuses, strict=True) if state == "error")
    return next(failed, None)


def _failure(job: FleetJob, outcome: Outcome) -> Iterator[str]:
    lines = job.output.lines()
    text = result_text(_failed_result(outcome))
    # its last lines follow
    text = text.partition(_LAST_OUTPUT)[0] if lines else text
    after = "" if outcome.runtime_s is None else f" after {duration(outcome.runtime_s)}"
    yield f"error: {job.element} (job {job.job_id}) failed{after}: {printable(text)}"
    yield from (f"    {line}" for line in lines)


def _canceled(fleet: Fleet, outcomes: Sequence[Outcome]) -> Mapping[str, list[str]]:
    """Why jobs were canceled -> their nodes or values."""
    elements: dict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.status not in ("success", "error"):
            elements[printable(_why(outcome)) or outcome.status].append(fleet.jobs[outcome.job_id].element)
    return elements


def _counts(fleet: Fleet, outcomes: Sequence[Outcome]) -> str:
    counts = Counter(outcome.status for outcome in outcomes)
    words = (("error", "failed"), ("canceled", "canceled"))
    others = [f"{counts[status]} {word}" for status, word in words if counts[status]]
    lasted = f" in {duration(fleet.lasted_s)}" if fleet.lasted_s else ""
    return ", ".join([f"{counts['success']} of {len(outcomes)} {fleet.noun} succeeded{lasted}", *others])


def _listed(elements: Sequence[str]) -> str:
    left = len(elements) - _MOST_NAMED
    return f"{', '.join(elements[:_MOST_NAMED])}{f' and {left} more' if left > 0 else ''}"


# A fleet where there is no terminal: a line when a job begins, and one when it has ended.
#
# Source: DESIGN section 13, "Fleet".


_STATUS_WIDTH: Final = max(map(len, FINAL_NAMES))


def show_fleet_lines(fleet: Fleet, streams: Sequence[OutputStream]) -> None:
    """Tell how the jobs go on until all have ended.

    Raises: as `JobFeed.next_event`.
    """
    with closing(follow_jobs(list(fleet.jobs), streams)) as followers:
        for event in followers:
            before = fleet.jobs[event.job_id].status
            job = fleet.note(event)
            if isinstance(event, JobUpdate):
                for line in event.log:
                    _tell(fleet, job, log_text(line))
                if job.status == "running" != before:
                    _tell(fleet, job, f"{job.status:<{_STATUS_WIDTH}}  job {job.job_id}")
                elif job.is_final:
                    _tell(fleet, job, f"{job.status:<{_STATUS_WIDTH}}  {_end_of(job)}")


def _tell(fleet: Fleet, job: FleetJob, text: str) -> None:
    size = str(len(fleet.jobs))
    progress = f"[{fleet.ended_count:>{len(size)}}/{size}]"
    write(defused(f"{progress} {job.element:<{fleet.name_width}}  {text}".rstrip()) + "\n")


def _end_of(job: FleetJob) -> str:
    # the last output may come later than the end, and the result has it
    with open_luxid() as client:
        (outcome,) = fetch_outcomes(client, [job.job_id])
    return end_text(outcome)

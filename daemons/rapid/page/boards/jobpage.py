"""The page of one job."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

import attrs
from starlette.responses import Response

from common.errors import Denied, NotFound
from common.ids import JobId, read_number
from common.queue.explanation import Reason, Span
from common.queue.jobs import FINAL_NAMES
from common.webaccess.rights import Right
from common.words.fields import JobRow, size
from common.words.outcome import no_such_job
from common.words.times import bare_clock
from daemons.rapid.calls import Asked
from daemons.rapid.page.acts import RERUN, RERUN_FROM_FAILED
from daemons.rapid.page.boards.board import Board, Following, may
from daemons.rapid.page.boards.joblist import acts_of
from daemons.rapid.page.drawing import draw_timeline
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.pages import login_of
from daemons.rapid.page.reading import (
    SHOWN,
    ClusterNow,
    ShownLines,
    held_since,
    last_lines,
    lines_from,
    lines_with,
    lock_rows,
    output_bytes,
    read_piece,
    reasons_of,
    times_of,
    wait_graph,
)
from daemons.rapid.page.replies import HEADERS
from daemons.rapid.page.terminal import OutputLine
from daemons.rapid.page.views.boards import JobPageBoard
from daemons.rapid.page.views.frame import Act, Choice, job_href, with_query
from daemons.rapid.page.views.graphview import MOST_BESIDE, NOTHING, GraphFacts, Shown, graph_view
from daemons.rapid.page.views.jobview import JOB_FIELDS, JobFacts, job_view, window
from daemons.rapid.page.views.outputview import OutputView, Times, rows_html, tail_html
from daemons.rapid.page.views.things import dependents, lock_lines, rows_of_owner
from daemons.rapid.resources.joblists import jobs_by_id
from daemons.rapid.streams import ByteStream
from protocol.luxi.queries import JOB, LockRow
from protocol.luxi.why import ReadJobWaits
from protocol.rapid.events import Topic

# seconds that the job's own timeline shows at least
SHORTEST_S: Final = 2.0
# seconds for which the end of a running job's output is looked for
_LONGEST_S: Final = 2.0
# characters of what is looked for
_LONGEST_FIND: Final = 200
# lines that are shown before one that was found
_LINES_BEFORE: Final = 20


@attrs.frozen
class Wanted:
    """What the address of the page says of the output."""

    # number of the line with which it begins; None: its end is shown
    line: int | None
    # number of the only try whose output it is; None: all
    of_try: int | None
    # what is looked for; "": nothing
    find: str
    # whether what comes is not wanted
    is_stopped: bool
    # whether lines have their times
    has_times: bool

    @classmethod
    def of(cls, asked: Asked) -> "Wanted":
        query = asked.http.query_params
        line = read_number(query.get("line", ""))
        return cls(
            None if line is None else max(line, 1),
            read_number(query.get("try", "")),
            query.get("find", "")[:_LONGEST_FIND],
            "stop" in query,
            "times" in query,
        )

    def href(self, path: str, **values: object) -> str:
        """An address of this path that has the times if this one has. Args: values: what else it says."""
        return with_query(path, [*values.items(), ("times", "yes" if self.has_times else None)])

    @property
    def is_end(self) -> bool:
        """Whether the end of the whole output is wanted."""
        return self.line is None and self.of_try is None and not self.find


@attrs.frozen
class ShownOutput:
    """The part of the output that is on the page."""

    lines: ShownLines
    wanted: Wanted
    is_followed: bool
    # of the lines; None: they are not wanted
    times: Times | None


@attrs.frozen
class JobPageFacts:
    row: JobRow
    spans: tuple[Span, ...]
    # all
    locks: tuple[LockRow, ...]
    # of those that wait in rows of its locks
    held: Mapping[int, Sequence[Reason] | None]
    # of the job itself; empty: it has ended
    reasons: Mapping[int, Sequence[Reason] | None]
    graph: GraphFacts
    acts: tuple[Act, ...]
    # None: the caller may not read it, or it was not asked for
    shown: ShownOutput | None = None


async def read(asked: Asked, now: ClusterNow) -> JobPageFacts:
    """Raises: NotFound: there is no such job."""
    job_id = int(asked.http.path_params["id"])
    rows = await jobs_by_id(asked.daemons, [job_id], JOB_FIELDS)
    if not rows:
        raise NotFound(no_such_job(job_id))
    is_final, may_see_rules = rows[0]["status"] in FINAL_NAMES, may(asked, Right.FILTERS_READ)
    (spans,) = await asked.daemons.luxid(ReadJobWaits((JobId(job_id),)))
    locks = await lock_rows(asked.daemons) if may(asked, Right.LOCKS_READ) else ()
    return JobPageFacts(
        rows[0],
        spans or (),
        locks,
        await held_since(asked.daemons, rows_of_owner(locks, f"{JOB}{job_id}")),
        {} if is_final else await reasons_of(asked.daemons, [job_id]),
        NOTHING if is_final else await wait_graph(asked.daemons, [job_id], MOST_BESIDE, with_rules=may_see_rules),
        _acts(asked, rows[0]),
    )


def _acts(asked: Asked, row: JobRow) -> tuple[Act, ...]:
    """The changes that this job can take as it is."""
    is_final = row["status"] in FINAL_NAMES
    vain = {"hold"} if row["hold"] is not None else {"release"} if row["status"] == "queued" else {"hold", "release"}
    if row["archived"]:
        vain = {"archive"}
    acts = [act for act in acts_of(asked) if act.is_for_ended == is_final and act.text not in vain]
    has_begun_well = "error" in row["opstatus"][1:] and row["opstatus"][0] == "success"
    return tuple(act for act in acts if act.href != RERUN_FROM_FAILED.href or has_begun_well)


async def with_output(asked: Asked, facts: JobPageFacts) -> JobPageFacts:
    """The facts with a part of the output: from a line on, or its end, which is followed until the job ends."""
    wanted, is_final = Wanted.of(asked), facts.row["status"] in FINAL_NAMES
    longest_s = inf if is_final else _LONGEST_S
    daemons, job_id = asked.daemons, facts.row["id"]
    try:
        if wanted.is_end:
            lines = await last_lines(daemons, job_id, longest_s)
        elif wanted.find and wanted.line is None:
            lines = await lines_with(daemons, job_id, wanted.find, wanted.of_try, longest_s)
        else:
            lines = await lines_from(daemons, job_id, wanted.line or 1, wanted.of_try)
        times = await times_of(daemons, job_id, _all_lines(lines)) if wanted.has_times else None
    except Denied:
        # it is told to the submitter and to operators
        return facts
    is_followed = wanted.is_end and not wanted.is_stopped and not is_final
    return attrs.evolve(facts, shown=ShownOutput(lines, wanted, is_followed, times))


def _all_lines(shown: ShownLines) -> Sequence[OutputLine]:
    return [*shown.lines, *([shown.tail] if shown.tail is not None else [])]


def following(facts: JobPageFacts) -> Following | None:
    shown = facts.shown
    if shown is None or not shown.is_followed:
        return None
    return Following(facts.row["id"], shown.lines.place, shown.wanted.has_times)


async def download(asked: Asked) -> Response:
    """The bytes of the output, as they were printed. Raises: Denied, JobLost, NotFound."""
    job_id, of_try = int(asked.http.path_params["id"]), read_number(asked.http.query_params.get("try", ""))
    # the first piece is read here: what is wrong with the job is an error with its own status
    first = await read_piece(asked.daemons, job_id, 0, of_try=of_try)
    name = f"job-{job_id}.log" if of_try is None else f"job-{job_id}-try-{of_try}.log"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": "application/octet-stream"}
    return ByteStream(
        output_bytes(asked.daemons, job_id, first, of_try), {**HEADERS, **headers, "Cache-Control": "no-store"}
    )


def view(facts: JobPageFacts, now: float) -> JobPageBoard:
    job_id = facts.row["id"]
    owner = f"{JOB}{job_id}"
    locks = lock_lines(rows_of_owner(facts.locks, owner), facts.held, now)
    told = JobFacts(facts.row, facts.reasons.get(job_id), facts.spans, locks, dependents(facts.locks, job_id))
    job = job_view(told, now, login_of)
    drawn = [job.life] if job.life is not None else []
    user = with_query("/ui/jobs", [("where", f'user="{job.user}"')]) if job.user else ""
    timeline = draw_timeline(drawn, *window(drawn, drawn[0].until if job.is_final and drawn else now, SHORTEST_S))
    return JobPageBoard(
        job,
        user,
        timeline,
        graph_view(facts.graph, Shown((job_id,))),
        facts.acts,
        _output_view(job_id, facts.shown, is_final=job.is_final),
        f"/ui/submit?of={job_id}" if any(act.href == RERUN.href for act in facts.acts) else None,
    )


def _output_view(job_id: int, shown: ShownOutput | None, *, is_final: bool) -> OutputView | None:
    if shown is None:
        return None
    path, lines, wanted = job_href(job_id), shown.lines, shown.wanted
    all_lines = _all_lines(lines)
    first = next((line.number for line in lines.lines), lines.place.number)
    is_lost = bool(lines.start) and wanted.of_try is None
    return OutputView(
        rows_html(
            lines.lines,
            open_group=lines.place.group,
            find=wanted.find,
            href=None if lines.found is None else lambda number: _line_href(path, wanted, number),
            times=shown.times,
        ),
        tail_html(lines.tail, shown.times),
        first,
        lines.found is None and first > 1,
        f"the first {size(lines.start)} are not kept; lines are counted from there" if is_lost else "",
        _told(shown, all_lines),
        # what goes on changes it
        "" if shown.is_followed else _range(lines, all_lines),
        shown.is_followed,
        (*_ends(path, shown, is_final=is_final), *_parts(path, wanted, first, _next(lines, all_lines))),
        wanted.find,
        "" if wanted.of_try is None else str(wanted.of_try),
        with_query(f"{path}/output", [("try", wanted.of_try)]),
        wanted.href(path, line=1, **{"try": wanted.of_try}),
        Choice("times", _times_href(path, wanted), wanted.has_times),
        _times_told(shown.times),
    )


def _times_href(path: str, wanted: Wanted) -> str:
    """The same part of the output with times, or without those that it has."""
    turned = attrs.evolve(wanted, has_times=not wanted.has_times)
    stop = "yes" if wanted.is_stopped else None
    return turned.href(path, line=wanted.line, **{"try": wanted.of_try}, find=wanted.find, stop=stop)


def _times_told(times: Times | None) -> str:
    """What is to be known of the times that are shown."""
    if times is None:
        return ""
    known = [at for at in times.values() if at is not None]
    if not known:
        return "no times of these lines are known" if times else ""
    days = sorted({bare_clock(at).partition(" ")[0] for at in (min(known), max(known))})
    some = "" if len(known) == len(times) else "; of some lines no time is known (–)"
    return f"when lines began to come to the master, {' to '.join(days)}, at most 0.25 s too early{some}"


def _line_href(path: str, wanted: Wanted, number: int) -> str:
    """The page on which this line has others before it."""
    line = max(number - _LINES_BEFORE, 1)
    query = wanted.href(path, line=line, **{"try": wanted.of_try}, find=wanted.find)
    return f"{query}#L{number}"


def _told(shown: ShownOutput, lines: Sequence[OutputLine]) -> str:
    """What is shown, in words."""
    found, wanted = shown.lines.found, shown.wanted
    if found is not None:
        some = f", of which the first {len(lines)} are shown" if found > len(lines) else ""
        return f"{found} {'line has' if found == 1 else 'lines have'} '{wanted.find}'{some}"
    if shown.is_followed:
        return "goes on"
    if not lines:
        return "there is none" if wanted.line in (None, 1) else f"there is no line {wanted.line}"
    if wanted.of_try is not None:
        return f"of try {wanted.of_try}"
    return "whole" if shown.lines.is_end and lines[0].number == 1 and not shown.lines.start else "a part"


def _range(shown: ShownLines, lines: Sequence[OutputLine]) -> str:
    if not lines or shown.found is not None:
        return ""
    return f"lines {lines[0].number} to {lines[-1].number}"


def _ends(path: str, shown: ShownOutput, *, is_final: bool) -> tuple[Choice, ...]:
    """The choices that show the end of the output; that of a job that has ended does not go on."""
    is_end = shown.wanted.is_end
    if is_final:
        return (Choice("end", shown.wanted.href(path), is_end),)
    return (
        Choice("follow", shown.wanted.href(path), shown.is_followed),
        Choice("stop", shown.wanted.href(path, stop="yes"), is_end and not shown.is_followed),
    )


def _next(shown: ShownLines, lines: Sequence[OutputLine]) -> int | None:
    """Number of the line after those that are shown; None: there is none yet."""
    return lines[-1].number + 1 if lines and shown.place.number > lines[-1].number + 1 else None


def _parts(path: str, wanted: Wanted, first: int, following: int | None) -> tuple[Choice, ...]:
    """The choices that show another part. Args: following: number of the line after this one."""

    def part(text: str, line: int, *, is_here: bool = False) -> Choice:
        return Choice(text, wanted.href(path, line=line, **{"try": wanted.of_try}, find=wanted.find), is_here)

    is_search = bool(wanted.find) and wanted.line is None
    return (
        part("from the start", 1, is_here=wanted.line == 1),
        *([part("part before", max(first - SHOWN.lines, 1))] if first > 1 and not is_search else []),
        *([part("next part", following)] if following is not None and not wanted.is_end and not is_search else []),
    )


BOARD: Final[Board[JobPageFacts]] = Board(
    "job",
    "/ui/jobs/{id:int}",
    (Right.JOBS_READ,),
    "The page of one job.",
    ("health", "jobhead", "opcodes", "relations"),
    read,
    view,
    lambda facts: f"Job {facts.row['id']}",
    lambda facts: Interest.of(Topic.JOBS, Topic.REASONS, Topic.LOCKS, job_ids=[facts.row["id"], *facts.graph.job_ids]),
    with_output,
    following,
)

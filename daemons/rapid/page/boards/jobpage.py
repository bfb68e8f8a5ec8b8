"""The page of one job."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

import attrs

from common.errors import Denied, NotFound
from common.ids import JobId
from common.queue.explanation import Reason, Span
from common.queue.jobs import FINAL_NAMES
from common.webaccess.rights import Right
from common.words.fields import JobRow, size
from common.words.outcome import no_such_job
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board, Following, may
from daemons.rapid.page.boards.joblist import acts_of
from daemons.rapid.page.drawing import draw_graph, draw_timeline
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.pages import login_of
from daemons.rapid.page.reading import ClusterNow, Output, chains, jobs_by_id, lock_rows, output_end, output_from
from daemons.rapid.page.views.boards import JobPageBoard, OutputView
from daemons.rapid.page.views.frame import Act, Choice, with_query
from daemons.rapid.page.views.jobview import JOB_FIELDS, JobFacts, job_view, window
from daemons.rapid.page.views.things import dependents, lock_lines, rows_of_owner, waits
from protocol.luxi.queries import JOB, LockRow
from protocol.luxi.why import ReadJobWaits
from protocol.rapid.events import Topic

# seconds that the job's own timeline shows at least
SHORTEST_S: Final = 2.0
# seconds for which the end of a running job's output is looked for
_LONGEST_S: Final = 2.0


@attrs.frozen
class ShownOutput:
    """The part of the output that is on the page."""

    output: Output
    is_followed: bool
    # whether a place was asked for
    is_part: bool
    # number of the only try whose output it is; None: all
    of_try: int | None = None


@attrs.frozen
class JobPageFacts:
    row: JobRow
    spans: tuple[Span, ...]
    locks: tuple[LockRow, ...]
    # of the job itself, and of those that stop it
    reasons: Mapping[int, Sequence[Reason] | None]
    acts: tuple[Act, ...]
    # None: the caller may not read it, or it was not asked for
    shown: ShownOutput | None = None


BOARD: Final[Board[JobPageFacts]] = Board(
    "job",
    "/ui/jobs/{id:int}",
    (Right.JOBS_READ,),
    "The page of one job.",
    ("health", "jobhead", "opcodes", "relations"),
    lambda asked, now: read(asked, now),
    lambda facts, now: view(facts, now),
    lambda facts: f"Job {facts.row['id']}",
    lambda facts: Interest.of(Topic.JOBS, Topic.REASONS, Topic.LOCKS, job_ids=[facts.row["id"], *facts.reasons]),
    lambda asked, facts: with_output(asked, facts),
    lambda facts: following(facts),
)


async def read(asked: Asked, now: ClusterNow) -> JobPageFacts:
    """Raises: NotFound: there is no such job."""
    job_id = int(asked.http.path_params["id"])
    rows = await jobs_by_id(asked.daemons, [job_id], JOB_FIELDS)
    if not rows:
        raise NotFound(no_such_job(job_id))
    (spans,) = await asked.daemons.luxid(ReadJobWaits((JobId(job_id),)))
    return JobPageFacts(
        rows[0],
        spans or (),
        await lock_rows(asked.daemons) if may(asked, Right.LOCKS_READ) else (),
        {} if rows[0]["status"] in FINAL_NAMES else await chains(asked.daemons, [job_id]),
        _acts(asked, rows[0]),
    )


def _acts(asked: Asked, row: JobRow) -> tuple[Act, ...]:
    """The changes that this job can take as it is."""
    if row["status"] in FINAL_NAMES:
        return ()
    vain = {"hold"} if row["hold"] is not None else {"release"} if row["status"] == "queued" else {"hold", "release"}
    return tuple(act for act in acts_of(asked) if act.text not in vain)


async def with_output(asked: Asked, facts: JobPageFacts) -> JobPageFacts:
    """The facts with a part of the output: from a byte on, or its end, which is followed until the job ends."""
    job_id, query = facts.row["id"], asked.http.query_params
    start, of_try = _number(query.get("from", "")), _number(query.get("try", ""))
    is_part = start is not None or of_try is not None
    is_followed = not is_part and "stop" not in query and facts.row["status"] not in FINAL_NAMES
    try:
        if is_part:
            output = await output_from(asked.daemons, job_id, start or 0, of_try)
        else:
            is_final = facts.row["status"] in FINAL_NAMES
            output = await output_end(asked.daemons, job_id, inf if is_final else _LONGEST_S)
    except Denied:
        # it is told to the submitter and to operators
        return facts
    return attrs.evolve(facts, shown=ShownOutput(output, is_followed, is_part, of_try))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def following(facts: JobPageFacts) -> Following | None:
    shown = facts.shown
    return Following(facts.row["id"], shown.output.end) if shown is not None and shown.is_followed else None


def view(facts: JobPageFacts, now: float) -> JobPageBoard:
    job_id = facts.row["id"]
    owner = f"{JOB}{job_id}"
    locks = lock_lines(rows_of_owner(facts.locks, owner), facts.reasons, now)
    told = JobFacts(facts.row, facts.reasons.get(job_id), facts.spans, locks, dependents(facts.locks, job_id))
    job = job_view(told, now, login_of)
    drawn = [job.life] if job.life is not None else []
    user = with_query("/ui/jobs", [("where", f'user="{job.user}"')]) if job.user else ""
    graph = draw_graph(waits(facts.reasons))
    timeline = draw_timeline(drawn, *window(drawn, drawn[0].until if job.is_final and drawn else now, SHORTEST_S))
    return JobPageBoard(
        job, user, timeline, graph, owner, facts.acts, _output_view(job_id, facts.shown, is_final=job.is_final)
    )


def _output_view(job_id: int, shown: ShownOutput | None, *, is_final: bool) -> OutputView | None:
    if shown is None:
        return None
    path, output = f"/ui/jobs/{job_id}", shown.output
    told = "goes on" if shown.is_followed else "whole" if output.is_end and not output.start else "a part"
    if shown.of_try is not None:
        told = f"of try {shown.of_try}"
    is_start = shown.is_part and shown.of_try is None and output.start == 0
    return OutputView(
        output.text,
        output.start,
        told if output.content or shown.is_followed else "there is none",
        f"bytes {output.start} to {output.end}, {size(len(output.content))}",
        shown.is_followed,
        (
            *_ends(path, shown, is_final=is_final),
            Choice("from the start", with_query(path, [("from", "0")]), is_start),
            Choice("next part", with_query(path, [("from", output.end), ("try", shown.of_try)])),
        ),
    )


def _ends(path: str, shown: ShownOutput, *, is_final: bool) -> tuple[Choice, ...]:
    """The choices that show the end of the output; that of a job that has ended does not go on."""
    if is_final:
        return (Choice("end", path, not shown.is_part),)
    return (
        Choice("follow", path, shown.is_followed),
        Choice("stop", with_query(path, [("stop", "yes")]), not shown.is_followed and not shown.is_part),
    )

"""`gnt-job why`: explain why jobs do not run, or ended as they did.

Source: DESIGN section 6, "Explain".
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
import click

from cli.choosing.jobids import ids_argument
from cli.commands import Command
from cli.connection import Luxid, known_login, open_luxid
from cli.context import command_line, program, wants_json
from cli.exitcodes import DONE, FAILED
from cli.job.info import job_waits
from cli.locknames import lock_names
from cli.outcomes import fetch_outcomes
from cli.query import query_jobs
from cli.screen import complain, say, say_json
from common.ids import JobId
from common.printable import printable
from common.queue.explanation import Reason, Span
from common.queue.jobs import FINAL_NAMES
from common.words.fields import FIELDS, JobRow, job_title, shown_status
from common.words.outcome import Outcome, end_words, life_lines, no_such_job
from common.words.times import clock, to_seconds, with_iso
from common.words.why import culprits, in_words, waited_words, worth_telling
from protocol.luxi.why import ExplainJobs

# Why jobs do not run: luxid's reasons for them, and for the jobs that block them, to the root of the chain.
#
# Source: DESIGN section 6, "Explain".


ASKED_FIELDS: Final = (
    *("id", "status", "name", "summary", "uses", "tries"),
    *("begin_ts", "received_ts", "start_ts", "end_ts"),
)
# maximum number of jobs that one command looks at; chains may be long
_MOST: Final = 100


@attrs.frozen
class JobExplanation:
    """Everything known about one job."""

    row: JobRow
    # reasons why it does not run; None: the job is not live
    reasons: tuple[Reason, ...] | None
    # waits so far
    waits: tuple[Span, ...]
    # end of the job; None: it has not ended
    outcome: Outcome | None = None

    @property
    def culprits(self) -> Iterator[int]:
        """The jobs that block it, by their locks or because it depends on them."""
        return culprits(self.reasons)


def explain_jobs(job_ids: Sequence[int]) -> Mapping[int, JobExplanation]:
    """Explain these jobs and all jobs that block them, directly or through others.

    Raises: as `BlockingClient.call`.
    """
    found: dict[int, JobExplanation] = {}
    with open_luxid() as client:
        wanted = list(dict.fromkeys(job_ids))
        while wanted:
            new = _explain(client, wanted)
            found.update(new)
            named = dict.fromkeys(job_id for each in new.values() for job_id in each.culprits)
            wanted = [job_id for job_id in named if job_id not in found][: max(_MOST - len(found), 0)]
    return found


def _explain(client: Luxid, job_ids: Sequence[int]) -> Mapping[int, JobExplanation]:
    rows = query_jobs(client, job_ids, ASKED_FIELDS)
    answers = client.call(ExplainJobs(tuple(JobId(row["id"]) for row in rows)))
    waits = job_waits(client, [row["id"] for row in rows])
    ended = [row["id"] for row in rows if row["status"] in FINAL_NAMES]
    outcomes = {outcome.job_id: outcome for outcome in fetch_outcomes(client, ended)}
    return {
        row["id"]: JobExplanation(
            row,
            reasons,
            tuple(waits.get(row["id"], ())),
            outcomes.get(row["id"]),
        )
        for row, reasons in zip(rows, answers, strict=True)
    }


# seconds; a wait that was shorter is not worth a line while the job waits for something else
_WORTH_TELLING_S: Final = 1.0


@click.command("why", cls=Command, examples=("gnt-job why 27491", "gnt-job why --output json 27491 | jq .[0].reasons"))
@ids_argument(is_required=True)
def why(job_ids: Sequence[int]) -> int:
    """Tell every reason why these jobs do not run, and the jobs that block them, to the root of the chain.

    For an ended job it tells why: what failed, who canceled it, or which rule or dependency ended it; and its life:
    when it could begin, what it waited for and how long, when it ran, its tries, and the resources that it used.
    """
    asked = list(dict.fromkeys(job_ids))
    found = explain_jobs(asked)
    lost = [job_id for job_id in asked if found[job_id].row["status"] is None]
    told = [job_id for job_id in asked if job_id not in lost]
    if wants_json():
        say_json([_as_json(found[job_id]) for job_id in told])
    else:
        seen: set[int] = set()
        for job_id in told:
            lines = list(_lines(job_id, found, seen, time.time()))
            put_names = lock_names(lines)
            for line in lines:
                say(printable(put_names(line)))
    for job_id in lost:
        complain(no_such_job(job_id))
    return FAILED if lost else DONE


def _lines(job_id: int, found: Mapping[int, JobExplanation], seen: set[int], now: float) -> Iterator[str]:
    """A job's heading, its reasons, and indented below them the jobs that block it; each job only once."""
    job = found[job_id]
    yield _heading(job, now) + (" (see above)" if job_id in seen else "")
    if job_id in seen:
        return
    seen.add(job_id)
    reasons = [in_words(reason, now) for reason in worth_telling(job.reasons or ())]
    for text in reasons:
        yield f"  {text}"
    if (end := _end(job)) is not None:
        yield f"  {end}"
    if not reasons and job.row["status"] not in FINAL_NAMES:
        yield "  nothing holds it"
    if (words := _past(job, now)) is not None:
        yield f"  {words}"
    if job.row["status"] in FINAL_NAMES:
        yield from (f"  {line}" for line in life_lines(job.row))
    culprits = list(dict.fromkeys(job.culprits))
    for culprit in culprits:
        if culprit in found:
            yield from (f"    {line}" for line in _lines(culprit, found, seen, now))
    if left := [culprit for culprit in culprits if culprit not in found]:
        yield f"    … {len(left)} more not looked at; see: {command_line(program(), 'why', left[0])}"


def _end(job: JobExplanation) -> str | None:
    """Why and when the job ended; None: it has not ended, or the end needs no explanation."""
    words = None if job.outcome is None else end_words(job.outcome, known_login)
    at = to_seconds(job.row["end_ts"])
    return words if words is None or at is None else f"{words}, at {clock(at)}"


def _past(job: JobExplanation, now: float) -> str | None:
    """What the job waited for; None: nothing. Of one that waits only what came before: its reasons tell the rest."""
    if not job.reasons:
        words = waited_words(job.waits, now) if job.row["status"] in FINAL_NAMES else None
        return None if words is None else f"waited {words}"
    over = [span for span in job.waits if span.until is not None]
    if sum(span.until - span.since for span in over if span.until is not None) < _WORTH_TELLING_S:
        return None
    return f"before that it waited {waited_words(over, now)}"


def _heading(job: JobExplanation, now: float) -> str:
    row = job.row
    status = shown_status(row["status"]) if row["status"] else "not there any more"
    elapsed = FIELDS["time"].show(row, now) if row["status"] else ""
    lasting = "" if not elapsed else f" after {elapsed}" if status in FINAL_NAMES else f" for {elapsed}"
    return f"job {row['id']}: {status}{lasting}: {job_title(row)}"


def _as_json(job: JobExplanation) -> dict[str, object]:
    end = None if job.outcome is None else end_words(job.outcome, known_login)
    told = {"id": job.row["id"], "status": job.row["status"], "reasons": job.reasons, "waits": job.waits, "end": end}
    # `end` is a text here
    life = with_iso({name: value for name, value in job.row.items() if name not in told})
    return {**life, **told, "ended": life["end"]}

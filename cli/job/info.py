"""`gnt-job info`: everything about jobs.

Source: cli.md 2, "info".
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click
import orjson

from cli.choosing.jobids import ids_argument
from cli.commands import Command
from cli.connection import Luxid, open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.locknames import lock_names
from cli.query import missing, query_jobs
from cli.screen import complain, say, say_json
from common.ids import JobId
from common.printable import printable
from common.queue.explanation import Span
from common.queue.jobs import FINAL_NAMES
from common.queue.reasons import tries_of_trail
from common.queue.terms import terms_of_trail
from common.words.fields import JobRow, usage_of, usage_words
from common.words.outcome import WITHHELD, no_such_job
from common.words.times import duration, precise_clock, to_seconds, with_iso, zone_mark
from common.words.why import waited_words
from protocol.luxi.why import ReadJobWaits

# Query luxid for what jobs waited for.


def job_waits(client: Luxid, job_ids: Sequence[int]) -> Mapping[int, Sequence[Span]]:
    """Return the spans of these jobs, by id; none for a job that does not exist. Raises: as `BlockingClient.call`."""
    answers = client.call(ReadJobWaits(tuple(map(JobId, job_ids)))) if job_ids else ()
    return {job_id: spans or () for job_id, spans in zip(job_ids, answers, strict=True)}


FIELDS: Final = (
    *("id", "status", "priority", "ops", "opresult", "opstatus", "oplog", "opstart", "opexec", "opend"),
    *("received_ts", "start_ts", "end_ts"),
)


@click.command("info", cls=Command, examples=("gnt-job info 27491", "gnt-job info --output json 27491 | jq .[0].ops"))
@ids_argument(is_required=True)
def info(job_ids: Sequence[int]) -> int:
    """Show everything about these jobs: opcodes with their input, result, times and log, and their waits."""
    with open_luxid() as client:
        rows = query_jobs(client, job_ids, FIELDS)
        lost = missing(rows)
        waits = job_waits(client, [row["id"] for row in rows if row["id"] not in lost])
    if wants_json():
        say_json([{**with_iso(row), "waits": waits.get(row["id"], ())} for row in rows if row["id"] not in lost])
    else:
        for row in rows:
            if row["id"] not in lost:
                waited = waited_words(waits.get(row["id"], ()), time.time())
                if waited is not None:
                    waited = lock_names([waited])(waited)
                for line in _job_lines(row, waited):
                    say(printable(line))
    for job_id in lost:
        complain(no_such_job(job_id))
    return FAILED if lost else DONE


def _job_lines(row: JobRow, waited: str | None) -> Iterator[str]:
    received, start, end = (to_seconds(row[name]) for name in ("received_ts", "start_ts", "end_ts"))
    yield f"- Job ID: {row['id']}"
    yield f"  Status: {row['status']}"
    yield f"  Priority: {row['priority']}"
    yield from _term_lines(row)
    yield f"  Received:         {_instant(received)}"
    yield f"  Processing start: {_instant(start)}{_delta(received, start)}"
    yield f"  Processing end:   {_instant(end)}{_delta(start, end)}"
    total = "N/A" if received is None or end is None else f"{end - received:.6f} seconds"
    yield f"  Total processing time: {total}"
    if waited is not None:
        yield f"  Waited: {waited}"
    if (usage := usage_of(row["opresult"])) is not None:
        yield f"  Used: {usage_words(usage)}"
    yield "  Opcodes: "
    for index in range(len(row["ops"] or ())):
        yield from (f"    {line}" for line in _op_lines(row, index))


def _term_lines(row: JobRow) -> Iterator[str]:
    terms = terms_of_trail(row["ops"][0].get("reason") if row["ops"] else None)
    if terms.name:
        yield f"  Name: {terms.name}"
    if terms.labels:
        yield f"  Labels: {', '.join(f'{key}={value}' for key, value in terms.labels.items())}"
    if terms.begin_at is not None:
        yield f"  Begin: {_instant(terms.begin_at)}"
    if (hold := terms.hold) is not None:
        why = f": {hold.why}" if hold.why else ""
        yield f"  Held: since {_instant(hold.at)}{f' by {hold.by}' if hold.by else ''}{why}"
    if terms.uses:
        yield f"  Uses: {', '.join(f'{use.key}={use.count}' for use in terms.uses)}"
    if terms.trace:
        yield f"  Trace: {terms.trace}"


def _op_lines(row: JobRow, index: int) -> Iterator[str]:
    op = row["ops"][index]
    yield f"- Opcode: {op.get('OP_ID', 'OP_INVALID')}"
    yield f"  Status: {row['opstatus'][index]}"
    yield f"  Processing start: {_op_instant(row['opstart'][index])}"
    yield f"  Execution start:  {_op_instant(row['opexec'][index])}"
    yield f"  Processing end:   {_op_instant(row['opend'][index])}"
    yield "  Input fields: "
    for key in sorted(op):
        if key != "OP_ID":
            yield f"    {key}: {_value(op[key])}"
    yield from _try_lines(op)
    yield f"  Result: {_result(row, index)}"
    yield "  Execution log: "
    for serial, at, kind, message in row["oplog"][index]:
        yield f"    - Time: {_op_instant(at)}"
        yield f"      Content: {_value([serial, kind, message])}"


def _try_lines(op: Mapping[str, object]) -> Iterator[str]:
    """The tries of a command but the last one, whose end is the opcode's."""
    tries = tries_of_trail(op.get("reason"))
    if tries:
        yield "  Failed tries: "
    for each in tries:
        lasted = duration(each.end_at - each.start_at)
        yield f"    - {each.number}: {_instant(each.start_at)}, after {lasted}: {each.why}"


def _result(row: JobRow, index: int) -> str:
    result, status = (row["opresult"] or ())[index], row["opstatus"][index]
    has_run = status in FINAL_NAMES and row["opexec"][index] is not None
    has_result = status == "error" or (has_run and row["ops"][index].get("OP_ID") == "OP_RUN_COMMAND")
    return f"like the arguments, {WITHHELD}" if result is None and has_result else _value(result)


def _instant(seconds: float | None) -> str:
    return "unknown" if seconds is None else _exact(seconds)


def _op_instant(stamp: object) -> str:
    seconds = to_seconds(stamp)
    return "N/A" if seconds is None else _exact(seconds)


def _exact(seconds: float) -> str:
    return f"{precise_clock(seconds)} {zone_mark(seconds)}"


def _delta(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else f" (delta {after - before:.6f}s)"


def _value(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()

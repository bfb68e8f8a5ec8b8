"""`gnt-job batch info`: how batches stand, and which of their jobs failed or run."""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from cli.choosing.batchnames import BATCH
from cli.commands import Command
from cli.connection import open_luxid
from cli.context import command_line, job_program, wants_json
from cli.exitcodes import DONE
from cli.fleet.batchrows import BatchRow, elements_by_id, read_batch
from cli.job.batches.list import batch_json
from cli.luxid import Luxid
from cli.query import query_jobs
from cli.screen import say, say_json
from common.printable import printable
from common.words.batches import counts_text
from common.words.fields import shown_status
from common.words.times import clock

# jobs that are named; the list has all
_MOST_NAMED: Final = 20
# the order in which jobs are named: what failed, what runs
_TOLD_FIRST: Final = ("error", "running", "canceling", "canceled", "waiting", "queued")


@click.command("info", cls=Command, examples=("gnt-job batch info b5f2c8a10b4d", "gnt-job batch info PREV"))
@click.argument("batch_ids", metavar="BATCH|PREV...", nargs=-1, required=True, type=BATCH)
def info(batch_ids: Sequence[str]) -> int:
    """Tell how batches stand: counts, limits, and the jobs that failed, run or wait, with their nodes or values."""
    with open_luxid() as client:
        found = [read_batch(client, batch_id) for batch_id in dict.fromkeys(batch_ids)]
        if wants_json():
            say_json([_json(each, client) for each in found])
            return DONE
        for each in found:
            for line in _lines(each, client):
                say(printable(line))
    return DONE


def _json(each: BatchRow, client: Luxid) -> dict[str, object]:
    shown = _elements(each, client)
    jobs = [{"id": row["id"], "status": row["status"], "element": shown.get(row["id"])} for row in each.jobs]
    return {**batch_json(each), "jobs": jobs}


def _elements(each: BatchRow, client: Luxid) -> dict[int, str]:
    return dict(elements_by_id(query_jobs(client, [row["id"] for row in each.jobs], ("id", "ops"))))


def _lines(each: BatchRow, client: Luxid) -> Iterator[str]:
    yield f"Batch {each.batch_id}: {each.state} ({counts_text(each.counts)})"
    yield f"  Name: {each.name}"
    yield f"  Jobs: {len(each.jobs)}, ids {each.jobs[0]['id']} to {each.jobs[-1]['id']}"
    if each.missing_count:
        yield f"  Not found: {each.missing_count} jobs, which were refused at their submission or deleted"
    received = "unknown" if each.received_at is None else clock(each.received_at)
    yield f"  Submitted: {received} by {each.user or 'unknown'}"
    if each.batch is not None and each.batch.at_most is not None:
        yield f"  At once: at most {each.batch.at_most}"
    if each.batch is not None and each.batch.failures is not None:
        yield f"  Stops: after more than {each.batch.failures} failures"
    yield from _named(each, client)


def _named(each: BatchRow, client: Luxid) -> Iterator[str]:
    rows = [row for status in _TOLD_FIRST for row in each.jobs if row["status"] == status]
    if not rows:
        return
    shown = _elements(each, client)
    width = max(len(shown.get(row["id"], "")) for row in rows[:_MOST_NAMED])
    for row in rows[:_MOST_NAMED]:
        yield f"  job {row['id']}  {shown.get(row['id'], ''):<{width}}  {shown_status(row['status'])}".rstrip()
    if len(rows) > _MOST_NAMED:
        also = command_line(job_program(), "list", "--batch", each.batch_id)
        yield f"  and {len(rows) - _MOST_NAMED} more; see: {also}"

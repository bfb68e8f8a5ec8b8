"""`gnt-job batch` and its verbs."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

import click

from cli.choosing.batches import BatchRow, elements_by_id, read_batch, read_batches
from cli.choosing.jobids import BATCH
from cli.commands import Command, CommandGroup, CommandVerb
from cli.connection import Luxid, open_luxid
from cli.context import command_line, job_program, wants_json
from cli.exitcodes import DONE
from cli.query import query_jobs
from cli.screen import say, say_json
from cli.tables import Column, Layout, render, show_lines, status_style, table_options
from common.printable import printable
from common.words.fields import shown_status
from common.words.outcome import counts_text
from common.words.times import clock, duration

VERBS: Final = {
    "list": CommandVerb("cli.job.batch:list_batches", "List batches."),
    "info": CommandVerb("cli.job.batch:info", "Show the state of batches, and which of their jobs failed or run."),
}

group = CommandGroup(
    "batch",
    VERBS,
    help=(
        "Jobs that were submitted together, for several nodes or values. gnt-job list, watch, wait, cancel, output "
        "and others take --batch ID."
    ),
    examples=("gnt-job batch list", "gnt-job batch info b5f2c8a10b4d", "gnt-job cancel --batch b5f2c8a10b4d"),
)


# `gnt-job batch list`: the batches, with their states.


_COLUMNS = (
    Column("BATCH"),
    Column("STATE", style=status_style),
    Column("JOBS", is_number=True),
    Column("AGE", is_number=True),
    Column("USER"),
    Column("COUNTS"),
    Column("NAME"),
)


@click.command("list", cls=Command, examples=("gnt-job batch list", "gnt-job batch list --archived --output json"))
@click.option("--archived", "with_archived", is_flag=True, help="Batches of archived jobs, too.")
@table_options
def list_batches(with_archived: bool, layout: Layout) -> int:
    """List the batches; a batch is active as long as one of its jobs is, and then in the worst state of its jobs."""
    with open_luxid() as client:
        found = read_batches(client, with_archived=with_archived)
    if wants_json():
        say_json([batch_json(each) for each in found])
        return DONE
    now = time.time()
    show_lines(render(_COLUMNS, [_cells(each, now) for each in found], layout))
    return DONE


def _cells(each: BatchRow, now: float) -> list[str]:
    age = "" if each.received_at is None else duration(now - each.received_at)
    size = len(each.jobs) if each.batch is None else each.batch.size
    return [each.batch_id, each.state, str(size), age, each.user, counts_text(each.counts), each.name]


def batch_json(each: BatchRow) -> dict[str, object]:
    """The JSON of a batch, without its jobs."""
    batch = each.batch
    return {
        "batch": each.batch_id,
        "name": each.name,
        "state": each.state,
        "size": len(each.jobs) if batch is None else batch.size,
        "counts": dict(each.counts),
        "at_most": None if batch is None else batch.at_most,
        "max_failures": None if batch is None else batch.failures,
        "each": [] if batch is None else list(batch.each),
        "user": each.user,
        "received": each.received_at,
        "first_id": each.jobs[0]["id"],
        "last_id": each.jobs[-1]["id"],
    }


# `gnt-job batch info`: how batches stand, and which of their jobs failed or run.


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

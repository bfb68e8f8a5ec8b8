"""`gnt-job batch list`: the batches, with their states."""

import time

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import uses_color, wants_json
from cli.exitcodes import DONE
from cli.fleet.batchrows import BatchRow, read_batches
from cli.options import table_options
from cli.paging import show_lines
from cli.screen import say_json
from cli.tables import Column, Layout, render, status_style
from common.words.batches import counts_text
from common.words.times import duration

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
def list_batches(with_archived: bool, no_headers: bool, separator: str | None) -> int:
    """List the batches; a batch is active as long as one of its jobs is, and then in the worst state of its jobs."""
    with open_luxid() as client:
        found = read_batches(client, with_archived=with_archived)
    if wants_json():
        say_json([batch_json(each) for each in found])
        return DONE
    now = time.time()
    show_lines(render(_COLUMNS, [_cells(each, now) for each in found], Layout(not no_headers, separator, uses_color())))
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

"""`gnt-job list`: the jobs of the queue as a table.

Source: cli.md 2, "list".
"""

import difflib
import time
from collections.abc import Sequence
from typing import Final

import attrs
import click

from cli.choosing.filtering import complete_fields
from cli.choosing.jobs import JobChoice, choice_options, within
from cli.choosing.lists import OwnField, fields_command
from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED, UNKNOWN_FIELD
from cli.query import filter_jobs, missing, query_jobs
from cli.screen import complain, remark, say_json, screen_width, warn
from cli.tables import NOTHING, UNAVAILABLE, UNKNOWN, Column, Layout, render, show_lines, status_style, table_options
from common.objects.kinds import QueryKind
from common.words.fields import FIELDS, JobRow, choose, field_of, job_title, sort_rows, unknown, value_of, wire_fields
from common.words.outcome import no_such_job
from common.words.times import with_iso


@click.command(
    "list",
    cls=Command,
    examples=(
        "gnt-job list",
        "gnt-job list --running -o id,runtime,summary",
        "gnt-job list 27490 27491 -o +start_ts,end_ts",
        "gnt-job list --where 'label.team=web & name=~^backup'",
        "gnt-job list --where 'op=OP_RUN_COMMAND & end > yesterday'",
        "gnt-job list --archived --since 'yesterday 18:00' --sort runtime --limit 10",
        "gnt-job list --error --no-headers --separator , -o id,summary",
    ),
)
@click.option(
    "-o",
    "--fields",
    "names",
    metavar="FIELDS",
    help="Columns, separated by commas; a leading + adds to the usual.",
    shell_complete=complete_fields,
)
@click.option("--since", metavar="TIME", help="Submitted at or after: yesterday, 2h (ago), '2026-11-21 02:00'.")
@click.option("--until", metavar="TIME", help="Submitted before.")
@click.option(
    "--sort",
    "by",
    metavar="FIELD",
    shell_complete=complete_fields,
    help="By a field: numbers and times the largest first, texts from a to z.",
)
@click.option("--reverse", "is_reversed", is_flag=True, help="In the opposite order.")
@click.option(
    "--limit", type=click.IntRange(min=0), help="Show at most so many: the newest, or the first ones of --sort."
)
@table_options
@click.option("-v", "--verbose", is_flag=True, help="Explain why a cell has no value.")
@choice_options
def list_jobs(
    choice: JobChoice,
    names: str | None,
    since: str | None,
    until: str | None,
    by: str | None,
    is_reversed: bool,
    limit: int | None,
    layout: Layout,
    verbose: bool,
) -> int:
    """List the jobs of the queue, the named ones, or those for which a filter holds.

    A filter compares fields: 'status=running & (op=OP_TEST_DELAY | name=~^web[12])'. It takes op, label.KEY, and the
    fields of list-fields, but not runtime and time. A priority is low, normal, high or a number; an instant is such
    as '2h ago', 'yesterday 14:00', '2026-11-21 02:00', or seconds since 1970. Values need quotes only around blanks
    and ()&|, and instants not even there.

    A job with a name is shown by it in place of its summary, but not to programs, with --no-headers, --separator or
    --output json. On a terminal the lines are cut to its width, and a table longer than it goes through a pager.
    """
    choice = within(choice, since, until)
    fields = choose(names)
    if not fields:
        raise click.UsageError(f"-o '{names}' names no field; 'gnt-job list-fields' shows all")
    if by is not None and unknown((by,)):
        raise click.UsageError(f"--sort '{by}' is not a field; 'gnt-job list-fields' shows all")
    if choice.with_archived and "archived" not in fields:
        fields = (*fields, "archived")
    rows = _rows(choice, wire_fields((*fields, *([by] if by else [])), "id", "status", *_besides(fields)))
    lost = missing(rows)
    shown = _in_order(rows, by, limit, is_reversed=is_reversed)
    if wants_json():
        wire = wire_fields(fields, *_besides(fields))
        say_json([with_iso({key: value_of(row, key) for key in wire}) for row in shown])
    else:
        _show(shown, fields, attrs.evolve(layout, nothing=UNAVAILABLE if verbose else NOTHING))
    if len(shown) < len(rows):
        remark(f"… {len(rows) - len(shown)} more; --limit {len(rows)} shows all, --since or --where fewer")
    return _complain(unknown(fields), lost)


def _besides(fields: Sequence[str]) -> tuple[str, ...]:
    """What goes with the summary: the name that stands in its place."""
    return ("name",) if "summary" in fields else ()


def _rows(choice: JobChoice, fields: Sequence[str]) -> list[JobRow]:
    with open_luxid() as client:
        if choice.has_only_ids or choice.is_plain:
            return query_jobs(client, choice.job_ids, fields)
        return filter_jobs(client, choice.expression(), fields)


def _in_order(rows: list[JobRow], by: str | None, limit: int | None, *, is_reversed: bool) -> list[JobRow]:
    """Sorted, and not more than wanted; luxid tells them by id, and of those the newest are wanted."""
    if by is not None:
        return sort_rows([row for row in rows if row["status"]], by, time.time(), is_reversed=is_reversed)[:limit]
    newest = rows if limit is None else rows[max(0, len(rows) - limit) :]
    return newest[::-1] if is_reversed else newest


def _show(rows: Sequence[JobRow], fields: Sequence[str], layout: Layout) -> None:
    if layout.is_for_people:
        layout = attrs.evolve(layout, width=screen_width())
    has_words = layout.nothing == UNAVAILABLE
    cells = _cells(rows, fields, by_name=layout.is_for_people, is_verbose=has_words)
    show_lines(
        render([_column(name) for name in fields], cells, layout),
        "--limit 20 shows the newest, --since or --where fewer",
    )


def _column(name: str) -> Column:
    field = field_of(name)
    return Column(field.title, field.is_number, status_style if name == "status" else None)


def _cells(rows: Sequence[JobRow], names: Sequence[str], *, by_name: bool, is_verbose: bool) -> list[list[str]]:
    fields, now = [field_of(name, UNKNOWN if is_verbose else "??") for name in names], time.time()
    cells = [[field.show(row, now) for field in fields] for row in rows]
    if by_name and "summary" in names:
        place = names.index("summary")
        for line, row in zip(cells, rows, strict=True):
            line[place] = job_title(row)
    return cells


def _complain(unknown_fields: Sequence[str], missing_ids: Sequence[int]) -> int:
    for job_id in missing_ids:
        complain(no_such_job(job_id))
    for name in unknown_fields:
        nearest = difflib.get_close_matches(name, FIELDS, n=1)
        advice = f"did you mean '{nearest[0]}'?" if nearest else f"fields are {', '.join(FIELDS)}"
        warn(f"unknown field '{name}'; {advice}")
    return UNKNOWN_FIELD if unknown_fields else FAILED if missing_ids else DONE


# `gnt-job list-fields`: the columns of `gnt-job list`.


OWN_FIELDS: Final = (
    OwnField("age", "how long ago the job was submitted (no filter)"),
    OwnField("cpu", "CPU time that its commands used (no filter)"),
    OwnField("memory", "highest memory of its commands (no filter)"),
    OwnField("read", "what its commands read from disks (no filter)"),
    OwnField("runtime", "how long it ran, or has been running (no filter)"),
    OwnField("time", "how long it ran or runs; before that, how long it has been waiting (no filter)"),
    OwnField("written", "what its commands wrote to disks (no filter)"),
)


list_fields = fields_command(
    QueryKind.JOB,
    "gnt-job",
    "status summary",
    help='Tell the fields of gnt-job list, all or the named ones; filters take those not marked "no filter".',
    own=OWN_FIELDS,
)

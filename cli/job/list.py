"""`gnt-job list`: the jobs of the queue as a table.

Source: cli.md 2, "list".
"""

import difflib
import time
from collections.abc import Sequence
from typing import Unpack

import click

from cli.choosing.jobchoice import ChoiceOptions, JobChoice, choice_options, read_choice
from cli.commands import Command
from cli.connection import open_luxid
from cli.context import uses_color, wants_json
from cli.exitcodes import DONE, FAILED, UNKNOWN_FIELD
from cli.options import table_options
from cli.query import filter_jobs, missing, query_jobs
from cli.screen import complain, say_json, say_styled, warn
from cli.tables import NOTHING, UNAVAILABLE, UNKNOWN, Column, Layout, render, status_style
from common.words.fields import FIELDS, Row, choose, field_of, unknown, value_of, wire_fields
from common.words.outcome import no_such_job


@click.command(
    "list",
    cls=Command,
    examples=(
        "gnt-job list",
        "gnt-job list --running -o id,runtime,summary",
        "gnt-job list 27490 27491 -o +start_ts,end_ts",
        "gnt-job list --where 'op=OP_RUN_COMMAND & summary=~web1'",
        "gnt-job list --error --no-headers --separator , -o id,summary",
    ),
)
@click.option("-o", "--fields", "names", metavar="FIELDS", help="Columns, with commas; a leading + adds to the usual.")
@table_options
@click.option("-v", "--verbose", is_flag=True, help="Say in words why a cell has no value.")
@choice_options
def list_jobs(
    names: str | None, no_headers: bool, separator: str | None, verbose: bool, **chosen: Unpack[ChoiceOptions]
) -> int:
    """List the jobs of the queue, the named ones, or those for which a filter holds.

    A filter compares fields: 'status=running & (op=OP_TEST_DELAY | summary=~web[12])'. It takes op and the fields
    of list-fields, but not age, runtime and time. A priority is low, normal, high or a number,
    a time is in seconds since 1970. Values need quotes only around blanks and ()&|.
    """
    choice = read_choice(**chosen)
    fields = choose(names)
    if not fields:
        raise click.UsageError(f"-o '{names}' names no field; 'gnt-job list-fields' tells which there are")
    if choice.with_archived and "archived" not in fields:
        fields = (*fields, "archived")
    rows = _rows(choice, wire_fields(fields, "id", "status"))
    if wants_json():
        say_json([{key: value_of(row, key) for key in wire_fields(fields)} for row in rows])
    else:
        layout = Layout(not no_headers, separator, uses_color(), UNAVAILABLE if verbose else NOTHING)
        for line in render([_column(name) for name in fields], _cells(rows, fields, verbose), layout):
            say_styled(line)
    return _complain(unknown(fields), missing(rows))


def _rows(choice: JobChoice, fields: Sequence[str]) -> list[Row]:
    with open_luxid() as client:
        if choice.has_only_ids or choice.is_plain:
            return query_jobs(client, choice.job_ids, fields)
        return filter_jobs(client, choice.expression(), fields)


def _column(name: str) -> Column:
    field = field_of(name)
    return Column(field.title, field.is_number, status_style if name == "status" else None)


def _cells(rows: Sequence[Row], names: Sequence[str], is_verbose: bool) -> list[list[str]]:
    fields, now = [field_of(name, UNKNOWN if is_verbose else "??") for name in names], time.time()
    return [[field.show(row, now) for field in fields] for row in rows]


def _complain(unknown_fields: Sequence[str], missing_ids: Sequence[int]) -> int:
    for job_id in missing_ids:
        complain(no_such_job(job_id))
    for name in unknown_fields:
        nearest = difflib.get_close_matches(name, FIELDS, n=1)
        advice = f"did you mean '{nearest[0]}'?" if nearest else f"fields are {', '.join(FIELDS)}"
        warn(f"unknown field '{name}'; {advice}")
    return UNKNOWN_FIELD if unknown_fields else FAILED if missing_ids else DONE

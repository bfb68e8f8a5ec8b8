"""`gnt-job list`: the jobs of the queue as a table.

Source: cli.md 2, "list".
"""

import difflib
import time
from collections.abc import Sequence

import click

from cli.commands import Command
from cli.context import uses_color, wants_json
from cli.fields import FIELDS, choose, field_of, unknown, wire_fields
from cli.query import FINISHED, JOB_ID, PENDING, jobs_now, missing
from cli.run import DONE, FAILED, UNKNOWN_FIELD
from cli.screen import complain, say, say_json, warn
from cli.tables import Layout, render


@click.command(
    "list",
    cls=Command,
    examples=(
        "gnt-job list",
        "gnt-job list --running -o id,runtime,summary",
        "gnt-job list 27490 27491 -o +start_ts,end_ts",
        "gnt-job list --error --no-headers --separator , -o id,summary",
    ),
)
@click.option("-o", "--fields", "chosen", metavar="FIELDS", help="Columns, with commas; a leading + adds to the usual.")
@click.option("--no-headers", is_flag=True, help="Leave out the header.")
@click.option("--separator", metavar="TEXT", help="Put this between the columns, and do not align them.")
@click.option("--pending", "statuses", flag_value=",".join(PENDING), help="Only jobs that have not begun.")
@click.option("--running", "statuses", flag_value="running", help="Only jobs that run.")
@click.option("--error", "statuses", flag_value="error", help="Only jobs that failed.")
@click.option("--finished", "statuses", flag_value=",".join(FINISHED), help="Only jobs that have ended.")
@click.argument("job_ids", metavar="[ID]...", nargs=-1, type=JOB_ID)
def list_jobs(
    job_ids: Sequence[int], chosen: str | None, no_headers: bool, separator: str | None, statuses: str | None
) -> int:
    """List the jobs of the queue, or those named, archived ones too."""
    names = choose(chosen)
    wanted = statuses.split(",") if statuses else []
    rows = jobs_now(job_ids, wire_fields(names, "id", "status"), wanted)
    if wants_json():
        say_json([{key: row[key] for key in wire_fields(names)} for row in rows])
    else:
        fields, now = [field_of(name) for name in names], time.time()
        cells = [[field.show(row, now) for field in fields] for row in rows]
        layout = Layout(not no_headers, separator, uses_color())
        for line in render([field.column for field in fields], cells, layout):
            say(line)
    return _complain(unknown(names), missing(rows))


def _complain(unknown_fields: Sequence[str], missing_ids: Sequence[int]) -> int:
    for job_id in missing_ids:
        complain(f"there is no job {job_id}; 'gnt-job list' shows those that are not archived")
    for name in unknown_fields:
        nearest = difflib.get_close_matches(name, FIELDS, n=1)
        advice = f"did you mean '{nearest[0]}'?" if nearest else f"fields are {', '.join(FIELDS)}"
        warn(f"unknown field '{name}'; {advice}")
    return UNKNOWN_FIELD if unknown_fields else FAILED if missing_ids else DONE

"""Jobs that a verb follows: by their ids, or those for which a filter holds when it begins."""

from collections.abc import Sequence

import click

from cli.connection import open_luxid
from cli.options import F
from cli.query import filter_jobs
from common.errors import PrerequisiteError
from common.words.jobfilter import job_filter


def where_option(function: F) -> F:
    """`--where`, beside ids."""
    text = "These jobs, as they are now: 'batch=5f2c8a10b4de', 'user=ada & status=running'."
    return click.option("--where", metavar="FILTER", help=text)(function)


def named_jobs(job_ids: Sequence[int], where: str | None) -> Sequence[int]:
    """Return the jobs: the ids as given, then those of the filter.

    Raises: UsageError: no job is named. InvalidRequest: the filter cannot be read.
        PrerequisiteError: the filter holds for none. Else as `Luxid.call`.
    """
    if where is None:
        if not job_ids:
            raise click.UsageError("name jobs by their ids, or by --where FILTER")
        return job_ids
    with open_luxid() as client:
        rows = filter_jobs(client, job_filter(where), ("id",))
    found = tuple(dict.fromkeys([*job_ids, *(row["id"] for row in rows)]))
    if not found:
        raise PrerequisiteError(f"no job is like '{where}'; archived ones are found by their ids", "unknown_entity")
    return found

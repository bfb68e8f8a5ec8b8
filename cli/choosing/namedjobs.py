"""Jobs that a verb follows: by their ids, by a batch, or those for which a filter holds when it begins."""

from collections.abc import Sequence

import click

from cli.choosing.batchnames import batch_ids, batch_option
from cli.choosing.jobchoice import read_job_filter, where_option
from cli.connection import open_luxid
from cli.options import F, with_options
from cli.query import filter_jobs
from common.errors import PrerequisiteError


def naming_options(function: F) -> F:
    """`--where` and `--batch`, beside ids."""
    return with_options(
        function,
        where_option("These jobs, as they are now: 'user=ada & status=running', 'label.team=web'."),
        batch_option,
    )


def named_jobs(job_ids: Sequence[int], where: str | None, batches: Sequence[str]) -> Sequence[int]:
    """Return the jobs: the ids as given, then those of batches, then those of the filter.

    Raises: UsageError: no job is named. InvalidRequest: the filter cannot be read.
        PrerequisiteError: the filter holds for none, or there is no such batch. Else as `Luxid.call`.
    """
    if where is None and not job_ids and not batches:
        raise click.UsageError("name jobs by their ids, by --batch ID, or by --where FILTER")
    job_ids = [*job_ids, *(job_id for batch in batches for job_id in batch_ids(batch))]
    if where is None:
        return tuple(dict.fromkeys(job_ids))
    condition = read_job_filter(where)
    with open_luxid() as client:
        rows = filter_jobs(client, condition, ("id",))
    found = tuple(dict.fromkeys([*job_ids, *(row["id"] for row in rows)]))
    if not found:
        raise PrerequisiteError(f"no job is like '{where}'; archived ones are found by their ids", "unknown_entity")
    return found
